"""Who resumes exactly: every peer and ours save a state on 2 ranks and go on with it on 2, 4 and 1.

    python benches/resume.py [--peers grain,huggingface] [--plans shuffle,mix] [--json FILE] [--markdown FILE]
    python benches/resume.py --tables FILE… [--markdown FILE]      # the tables of figures that such runs wrote
    PENSTOCK_BENCH_SAVED_STEP=60 python benches/resume.py          # saved after step 60 instead of 20

Two sources of 20,000 rows in each peer's own format; steps of 64 rows over all ranks, each rank a process of its own, all at the same time. The state is
saved after step 20, as the peer documents, of a run that goes on to its end: what the resumed runs are compared with. The 20 steps after the state must have the same
rows, whatever their order within a step; what comes more often or less often in a whole epoch is counted as rows repeated and rows lost. "Read again" is what all ranks'
processes read (`rchar`, or rows where a wrapper counts them) from the state to the end of the epoch, less the remaining steps' share of what the uninterrupted run read.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

import environments
from resume_rows import BATCH, FILES, LONGEST, PLANS, ROWS, SAVED_STEP, STEPS, Numbers, read_steps, rows_of
from run import cpu_model
from side import Failed, Line, call
from work import HERE, interpreter, work_folder

OURS = "penstock"
PEERS = ("mosaicml", "grain", "litdata", "webdataset", "huggingface", "torchdata", "tfdata")
SAVED_RANKS, RESUMED_RANKS = 2, (2, 4, 1)
TIMEOUT_S = 240
EXACT = "**exact**"
Steps = list[Numbers]


def command(peer: str) -> list[str]:
    """A side's interpreter and script."""
    python = sys.executable if peer == OURS else str(interpreter(peer))
    return [python, str(HERE / "peers" / f"resume_{peer}.py"), "--data", str(data_folder())]


def data_folder() -> Path:
    """Where every format's copy lies."""
    return work_folder() / "data" / "resume"


def prepare(peer: str) -> str:
    """Environment and files of a peer; "" or why there are none."""
    if peer != OURS and (reason := environments.ensure(peer)):
        return reason
    mark = data_folder() / f"{peer}.done"
    if not mark.exists():
        done = subprocess.run([*command(peer), "--write"], capture_output=True, text=True, check=False)
        if done.returncode:
            return f"could not write its files: {(done.stderr.strip().splitlines() or ['no output'])[-1][:200]}"
        mark.write_text(f"{ROWS} rows in {FILES} files\n")
    return ""


def launch(peer: str, plan: str, ranks: int, out: Path, state: Path | None) -> list[Line]:
    """All ranks of one run, at the same time; each one's line."""
    shutil.rmtree(out, ignore_errors=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with ThreadPoolExecutor(ranks) as pool:
        return list(pool.map(lambda rank: _rank(peer, plan, rank, ranks, port, out, state), range(ranks)))


def _rank(peer: str, plan: str, rank: int, ranks: int, port: int, out: Path, state: Path | None) -> Line:
    """One rank's process, with torchrun's environment variables, by which peers find their rank."""
    places = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": ranks, "LOCAL_WORLD_SIZE": ranks, "MASTER_PORT": port}
    variables = {"MASTER_ADDR": "127.0.0.1"} | {name: str(value) for name, value in places.items()}
    options = ["--plan", plan, "--rank", str(rank), "--ranks", str(ranks), "--out", str(out)]
    options += ["--state", str(state)] if state else []
    settings = [f"{name}={value}" for name, value in variables.items()]
    try:
        return call(["env", *settings, *command(peer), *options], TIMEOUT_S)
    except Failed as failed:
        return {"refused": str(failed)}


def steps_of(out: Path, ranks: int) -> Steps:
    """The global steps: of each, what all ranks took, sorted."""
    shares = [read_steps(out / f"steps-{rank}.npz") for rank in range(ranks)]
    return [np.sort(np.concatenate(step)) for step in zip(*shares, strict=False)]


def compare(whole: Steps, resumed: Steps, plan: str) -> Line:
    """What the resumed run took, beside the uninterrupted one."""
    wanted, got = whole[SAVED_STEP:STEPS], resumed[: STEPS - SAVED_STEP]
    same = sum(np.array_equal(one, other) for one, other in zip(wanted, got, strict=False))
    if same == STEPS - SAVED_STEP:
        return {"verdict": "exact", "same_steps": same}
    before, planned = times(whole[:SAVED_STEP], plan), times(whole, plan)
    taken = before + times(resumed, plan)
    repeated = sum(count - max(planned[row], 1) for row, count in taken.items() if count > max(planned[row], 1))
    at_once = sum(min(count, before[row]) for row, count in times(got, plan).items() if row in before)
    lost = len(planned.keys() - taken.keys())
    verdict = "other batches" if not repeated and lost <= BATCH else "repeats and loses"
    return {"verdict": verdict, "same_steps": same, "repeated": repeated, "repeated_in_20_steps": at_once, "lost": lost}


def times(steps: Steps, plan: str) -> Counter[int]:
    """How often each row came; of a packed document its first token counts."""
    ids = np.concatenate([*steps, np.zeros(0, dtype=np.int64)])
    if plan == "pack":
        ids = rows_of(ids[ids % LONGEST == 0])
    return Counter(ids.tolist())


def of_plan(peer: str, plan: str) -> Line:
    """A peer's figures of one plan."""
    folder = work_folder() / "resume" / peer / plan
    first = launch(peer, plan, SAVED_RANKS, folder / "whole", None)
    found: Line = {name: first[0].get(name) for name in ("peer", "version", "way", "no_feature")}
    if failed := next((line for line in first if "refused" in line), None):
        return found | {"failed": failed["refused"]}
    if found["no_feature"]:
        return found
    whole = steps_of(folder / "whole", SAVED_RANKS)
    found |= {
        "steps": len(whole),
        "read": total(first),
        "state_bytes": sum(line.get("state_bytes", 0) for line in first),
    }
    return found | {"resumed": {ranks: of_ranks(peer, plan, ranks, folder, whole) for ranks in RESUMED_RANKS}}


def of_ranks(peer: str, plan: str, ranks: int, folder: Path, whole: Steps) -> Line:
    """A peer's figures of going on with so many ranks."""
    out = folder / f"resumed-{ranks}"
    lines = launch(peer, plan, ranks, out, folder / "whole")
    for word in ("no_way", "refused"):
        if line := next((line for line in lines if word in line), None):
            return {"verdict": word, "reason": line[word]}
    resumed = steps_of(out, ranks)
    return compare(whole, resumed, plan) | {"steps": len(resumed), "read": total(lines)}


def total(lines: list[Line]) -> Line:
    """Bytes and rows that all ranks read."""
    counted = [line.get("rows") for line in lines]
    return {
        "bytes": sum(line.get("bytes", 0) for line in lines),
        "rows": None if None in counted else sum(count for count in counted if count is not None),
    }


def cell(found: Line, ranks: int) -> str:
    """A cell of the table."""
    if found.get("no_feature"):
        return "no such feature"
    if found.get("failed"):
        return "fails"
    line = found["resumed"][ranks]
    match line["verdict"]:
        case "exact":
            return EXACT
        case "no_way":
            return "no way documented"
        case "refused":
            return "refuses"
        case "other batches":
            return "each row once, other batches"
        case _:
            return f"repeats {line['repeated']:,}, loses {line['lost']:,}"


def read_again(found: Line) -> str:
    """What the run that was resumed on as many ranks read beyond its steps' share: rows where they are counted, or bytes."""
    resumed = found.get("resumed", {}).get(SAVED_RANKS, {})
    if "read" not in resumed:
        return ""
    share = resumed["steps"] / found["steps"]
    if resumed["read"]["rows"] is not None:
        rows = round(resumed["read"]["rows"] - found["read"]["rows"] * share)
        return f"{max(rows, 0):,} of {found['read']['rows']:,} rows"
    size = found["read"]["bytes"]
    if size < 8 * ROWS:
        return "mapped, not counted"
    return f"{max(resumed['read']['bytes'] - size * share, 0) / 1e6:.2f} of {size / 1e6:.1f} MB"


def markdown(results: dict[str, dict[str, Line]], skipped: dict[str, str]) -> Iterator[str]:
    """A table a plan, ours first, and a line of explanation for each cell that is not "exact"."""
    results = dict(sorted(results.items(), key=lambda item: item[0] != OURS))
    for plan in dict.fromkeys(plan for lines in results.values() for plan in lines):
        heads = [f"on {ranks} rank{'s' * (ranks > 1)}" for ranks in RESUMED_RANKS]
        yield f"**{plan}**: {PLANS[plan]}\n"
        yield f"| | {' | '.join(heads)} | state, all ranks | read again, on 2 ranks |"
        yield "| --- | --- | --- | --- | ---: | ---: |"
        for lines in results.values():
            if not (found := lines.get(plan)):
                continue
            size = f"{found['state_bytes']:,} B" if "steps" in found and "read" in found["resumed"][SAVED_RANKS] else ""
            cells = [cell(found, ranks) for ranks in RESUMED_RANKS]
            yield f"| {found['peer']} {found['version']} | {' | '.join(cells)} | {size} | {read_again(found)} |"
        for peer in skipped:
            yield f"| {peer} {'| not run here ' * len(RESUMED_RANKS)}| | |"
        yield ""
    yield from notes(results)
    yield from (f"- {peer}: not run here, it {reason}" for peer, reason in skipped.items())


def notes(results: dict[str, dict[str, Line]]) -> Iterator[str]:
    """What was called, and why it is not exact; plans of which the same is to be said share a line."""
    for lines in results.values():
        plans: dict[str, list[str]] = {}
        for plan, found in lines.items():
            plans.setdefault(note(found), []).append(plan)
        peer = next(iter(lines.values()))["peer"]
        yield from (f"- {peer}, {', '.join(of)}: {text}" for text, of in plans.items())


def note(found: Line) -> str:
    """Of one plan."""
    if reason := found.get("no_feature") or found.get("failed"):
        return str(reason)
    told = dict.fromkeys(of_cell(line) for line in found["resumed"].values() if line["verdict"] != "exact")
    return "; ".join([f"`{found['way']}`", *told])


def of_cell(line: Line) -> str:
    """Why a cell is not exact."""
    if "reason" in line:
        return line["reason"]
    return (
        f"{line['same_steps']} of {STEPS - SAVED_STEP} steps have the rows of the uninterrupted run, {line['repeated_in_20_steps']:,} of their rows came before "
        f"the state; in the whole epoch {line['repeated']:,} rows repeated, {line['lost']:,} lost"
    )


def parse() -> argparse.Namespace:
    """The command line."""
    names = (OURS, *PEERS)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=lambda text: text.split(","), default=list(names), help=",".join(names))
    parser.add_argument("--plans", type=lambda text: text.split(","), default=list(PLANS), help=",".join(PLANS))
    parser.add_argument("--json", nargs="?", type=Path, const=work_folder() / "resume.json", help="write the figures")
    parser.add_argument("--markdown", type=Path, help="write the tables")
    parser.add_argument("--tables", nargs="+", type=Path, default=[], help="run nothing, show these figures")
    arguments = parser.parse_args()
    if unknown := (set(arguments.peers) - set(names)) | (set(arguments.plans) - set(PLANS)):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    return arguments


def run(arguments: argparse.Namespace) -> tuple[dict[str, dict[str, Line]], dict[str, str]]:
    """Figures by peer and plan, and why some peers have none."""
    data_folder().mkdir(parents=True, exist_ok=True)
    results: dict[str, dict[str, Line]] = {}
    skipped: dict[str, str] = {}
    for peer in arguments.peers:
        if reason := prepare(peer):
            skipped[peer] = reason
            print(f"{peer}: skipped, it {reason}", flush=True)
            continue
        results[peer] = {}
        for plan in arguments.plans:
            found = results[peer][plan] = of_plan(peer, plan)
            print(f"{peer}, {plan}: {'; '.join(cell(found, ranks) for ranks in RESUMED_RANKS)}", flush=True)
    return results, skipped


def written(files: list[Path]) -> tuple[dict[str, dict[str, Line]], dict[str, str]]:
    """What `run` returned in one or several runs; of a peer that is in several, the last counts."""
    results: dict[str, dict[str, Line]] = {}
    skipped: dict[str, str] = {}
    for file in files:
        saved = json.loads(file.read_text())
        skipped |= saved["skipped"]
        for peer, lines in saved["results"].items():
            for plan, found in lines.items():
                by_ranks = {int(ranks): line for ranks, line in found.get("resumed", {}).items()}
                results.setdefault(peer, {})[plan] = found | ({"resumed": by_ranks} if by_ranks else {})
    return results, skipped


def main() -> int:
    """1 if ours is not exact somewhere."""
    arguments = parse()
    results, skipped = written(arguments.tables) if arguments.tables else run(arguments)
    text = "\n".join(markdown(results, skipped)) + "\n"
    print(text)
    if arguments.markdown:
        arguments.markdown.write_text(text)
    if arguments.json:
        machine = {"cpu": cpu_model(), "cpus": os.cpu_count()}
        arguments.json.write_text(json.dumps({"machine": machine, "results": results, "skipped": skipped}, indent=1))
    ours = results.get(OURS, {}).values()
    return 0 if all(cell(found, ranks) == EXACT for found in ours for ranks in RESUMED_RANKS) else 1


if __name__ == "__main__":
    sys.exit(main())
