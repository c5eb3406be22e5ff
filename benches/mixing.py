"""Mixing, and batches of similar length: ours and the peers, each on its own format.

    python benches/mixing.py [--peers tfdata,grain] [--plans mix,lengths] [--rows 60000] [--rounds 3] [--json [FILE]]

"mix": ten sources with weights 1, 1/2, … 1/10, each shuffled, to batches of 64 rows of 2,048 uint16 tokens (4 KB). A source is as long as its weight says. "lengths": lists of
int32 tokens of lognormal lengths (400 on average, clipped to 16 to 2,048) in memory, shuffled, padded in batches of similar length: 64 rows (`batch_bucketed`;
`bucket_by_sequence_length` with equal batch sizes) or 32,768 tokens (`batch_tokens`; a batch size for each bucket). Ours gives a mask and lengths as well.

Sides are processes of their own that run in turn, for some seconds before the clock starts, with the settings for 2 cores that their guides recommend; where there is a choice,
both are shown, and so is what is put together "by hand" where that is faster. A side that gives other shapes or types than it should fails. "off" is how far a source's
share of the first 100 batches is from its weight, at most. Ratios are of one round, to ours of the same name, or to our first variant; the
median counts. CPU time is that of a side's process and all its descendants.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

import environments
from mixing_rows import PLANS, ROWS, write_tokens
from run import cpu_model
from side import OURS, Failed, Line, Side, call
from work import HERE, interpreter, table_width, work_folder

PEERS = ("tfdata", "grain", "mosaicml", "litdata", "webdataset", "huggingface")
#: The first batches, of a peer that compiles or imports much, come late.
PATIENCE_S = 240
Results = dict[Side, list[Line]]


def command(peer: str, arguments: argparse.Namespace) -> list[str]:
    """A peer's interpreter and script, with its data."""
    python = sys.executable if peer == OURS else str(interpreter(peer))
    script = str(HERE / "peers" / f"mixing_{peer}.py")
    return [python, script, "--data", str(folder(arguments)), "--rows", str(arguments.rows)]


def folder(arguments: argparse.Namespace) -> Path:
    """Where every format's copy lies."""
    return work_folder() / "data" / f"mixing-{arguments.rows}"


def prepare(peer: str, arguments: argparse.Namespace) -> str:
    """Environment and files of a peer; "" or why there are none."""
    if peer != OURS and (reason := environments.ensure(peer)):
        return reason
    mark = folder(arguments) / f"{peer}.done"
    if not mark.exists():
        done = subprocess.run([*command(peer, arguments), "--write"], capture_output=True, text=True, check=False)
        if done.returncode:
            return f"could not write its files: {(done.stderr.strip().splitlines() or ['no output'])[-1][:200]}"
        mark.touch()
    return ""


def listed(arguments: argparse.Namespace) -> tuple[list[Side], Line, Line]:
    """All sides, the peers without a feature by plan, and why some peers are left out."""
    write_tokens(folder(arguments), arguments.rows)
    sides: list[Side] = []
    lacking: Line = {plan: {} for plan in arguments.plans}
    skipped: Line = {}
    for peer in (OURS, *arguments.peers):
        if reason := prepare(peer, arguments):
            skipped[peer] = reason
            continue
        found = call([*command(peer, arguments), "--list"], PATIENCE_S)
        for plan in arguments.plans:
            sides += [Side(plan, peer, variant) for variant in found[plan].get("variants", [])]
            if reason := found[plan].get("no_feature"):
                lacking[plan][f"{found['peer']} {found['version']}"] = reason
    return sorted(sides, key=lambda side: arguments.plans.index(side.workload)), lacking, skipped


def measure(sides: list[Side], arguments: argparse.Namespace, skipped: Line) -> Results:
    """Every side's line of each round; a side that fails once is left out."""
    results: Results = {side: [] for side in sides}
    times = ["--seconds", str(arguments.seconds), "--warmup", str(arguments.warmup)]
    for number in range(arguments.rounds):
        for side in [*results]:
            options = ["--plan", side.workload, "--variant", side.variant, *times]
            try:
                line = call([*command(side.peer, arguments), *options], PATIENCE_S)
            except Failed as failed:
                skipped[f"{side.peer} {side.variant}, {side.workload}"] = str(failed)
                del results[side]
                continue
            results[side].append(line)
            figures = f"{line['samples_per_s']:,.0f} samples/s, {line['cpu_s_per_1000']:.4f} CPU s a 1,000"
            print(f"{number + 1}: {side.workload}, {side.peer} {side.variant}: {figures}", flush=True)
    return results


def ours_for(side: Side, results: Results) -> Side | None:
    """Our variant that a side is compared with."""
    mine = [one for one in results if one.peer == OURS and one.workload == side.workload]
    return next((one for one in mine if one.variant == side.variant), mine[0] if mine else None)


def ratio(side: Side, figure: str, results: Results) -> float | None:
    """A side's figure over ours, the median of the rounds."""
    if not (ours := ours_for(side, results)):
        return None
    pairs = zip(results[side], results[ours], strict=True)
    return median(line[figure] / mine[figure] for line, mine in pairs)


def rows_of(plan: str, results: Results) -> Iterator[list[str]]:
    """A row of cells a side."""
    for side, lines in results.items():
        if side.workload != plan or not lines:
            continue
        figures = {figure: median(line[figure] for line in lines) for figure in ("samples_per_s", "cpu_s_per_1000")}
        slower, dearer = ratio(side, "samples_per_s", results), ratio(side, "cpu_s_per_1000", results)
        yield [
            f"{lines[0]['peer']} {lines[0]['version']}",
            side.variant,
            f"{figures['samples_per_s']:,.0f}",
            f"{1 / slower:.2f}×" if slower else "",
            f"{figures['cpu_s_per_1000']:.4f}",
            f"{dearer:.2f}×" if dearer else "",
            f"{lines[0]['fill']:.1%}" if "fill" in lines[0] else f"{lines[0]['off_weights']:.1%}",
        ]


def shown(plan: str, results: Results, lacking: dict[str, str]) -> Table:
    """A line a side, and one for each peer that has no such feature."""
    heads = ("side", "variant", "samples/s", "ours is", "CPU s a 1,000", "of ours", "off" if plan == "mix" else "fill")
    table = Table(*heads, title=f"{plan}: {PLANS[plan]}", title_justify="left")
    for cells in rows_of(plan, results):
        table.add_row(*cells)
    for name in lacking:
        table.add_row(name, "no feature")
    return table


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=lambda text: text.split(","), default=list(PEERS), help=",".join(PEERS))
    parser.add_argument("--plans", type=lambda text: text.split(","), default=list(PLANS), help=",".join(PLANS))
    parser.add_argument("--rows", type=int, default=ROWS, help="of all sources together, and lists of tokens")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=6.0, help="how long a side is timed")
    parser.add_argument("--warmup", type=float, default=6.0, help="how long it runs before that")
    parser.add_argument("--json", nargs="?", type=Path, const=work_folder() / "mixing.json", help="write the figures")
    arguments = parser.parse_args()
    if unknown := (set(arguments.peers) - set(PEERS)) | (set(arguments.plans) - set(PLANS)):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    return arguments


def main() -> int:
    """1 if ours gave no figures."""
    arguments = parse()
    sides, lacking, skipped = listed(arguments)
    results = measure(sides, arguments, skipped)
    console = Console(width=table_width())
    for plan in arguments.plans:
        console.print(shown(plan, results, lacking[plan]))
        for name, reason in lacking[plan].items():
            print(f"{name}: no feature: {reason}")
    for name, reason in skipped.items():
        print(f"{name}: skipped, it {reason}")
    if arguments.json:
        machine = {"cpu": cpu_model(), "cpus": os.cpu_count()}
        runs = [{"plan": side.workload, "variant": side.variant, "rounds": lines} for side, lines in results.items()]
        figures = {"machine": machine, "rows": arguments.rows, "runs": runs, "no_feature": lacking, "skipped": skipped}
        arguments.json.write_text(json.dumps(figures, indent=1))
    return 0 if any(side.peer == OURS for side in results) else 1


if __name__ == "__main__":
    raise SystemExit(main())
