"""Pipelines with a known bottleneck: is the verdict right, and is the gain what was predicted, once the remedy is applied?

    python benches/bottlenecks.py [--only NAME …] [--seconds 5] [--json FILE] [--snapshots FOLDER]
    python benches/bottlenecks.py --json FILE --table              # runs nothing; the table of docs/observe.md

24 pipelines, each as it is and with its remedy, and ten loops that data does not limit, each in a process of its own: about 12 minutes. What is in FILE already is not run again, unless it is
named by --only. A first pass of --seconds, in which the tuner looks around, is left out; rate, verdict and predicted gain are those of a second pass, on the first side alone. Where a store is read,
whose answers to the first pass would hold up the second, and where the start is what takes long, there is one pass of twice the time; of a long start the rate is that of all of it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import penstock as ps
from bottleneck_data import MODEL_BOUND, Made
from bottleneck_pipelines import PIPELINES, Pipeline
from bottleneck_store import running, slow_store

HERE = Path(__file__).parent
#: A predicted gain is right where the rate that it gives is so near to the measured one.
NEAR = 0.15
_PIPELINES = {one.name: one for one in PIPELINES}


def run(made: Made, seconds: float) -> dict[str, Any]:
    """Trains for so long, twice: what is tuned in the first pass counts in the second."""
    with ps.Loader(made.dataset, **made.options) as loader:
        _train(loader, made, seconds)
        _train(loader, made, seconds)
        stats = loader.stats()
        return {"samples_per_s": stats.steady_samples_per_s, "snapshot": stats.as_dict()}


def run_at_once(made: Made, until: float, began_at: float | None) -> dict[str, Any]:
    """Trains in one pass up to a time. began_at: where the rate counts from; None: from the first batch on."""
    with ps.Loader(made.dataset, **made.options) as loader:
        _train(loader, made, until - time.perf_counter())
        stats = loader.stats()
        rate = stats.steady_samples_per_s if began_at is None else stats.samples / (time.perf_counter() - began_at)
        return {"samples_per_s": rate, "snapshot": stats.as_dict()}


def _train(loader: ps.Loader[Any], made: Made, seconds: float) -> None:
    """A pass of its own, which another one does not continue."""
    until = time.perf_counter() + seconds
    while True:
        for batch in loader:
            made.step(batch)
            if time.perf_counter() > until:
                return


def side(name: str, is_better: bool, seconds: float) -> dict[str, Any]:
    """One side, in this process."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PENSTOCK_OBSERVE_DIR"] = f"{folder}/observe"
        if name in MODEL_BOUND:
            return run(MODEL_BOUND[name](Path(folder)), seconds)
        pipeline = _PIPELINES[name]
        seconds *= pipeline.longer
        pipeline.before(is_better, Path(folder))
        began_at = time.perf_counter()
        made = pipeline.make(is_better, Path(folder))
        if pipeline.is_start:
            return run_at_once(made, began_at + 2 * seconds, began_at)
        return run_at_once(made, time.perf_counter() + 2 * seconds, None) if pipeline.store else run(made, seconds)


def in_process(name: str, is_better: bool, seconds: float) -> dict[str, Any]:
    """One side, in a process of its own, beside what it needs and what disturbs it."""
    options = ["--side", name, "--seconds", str(seconds), *(["--better"] if is_better else [])]
    pipeline = _PIPELINES.get(name)
    told, noisy = ({}, False) if pipeline is None else (pipeline.store, pipeline.neighbours and not is_better)
    burners = [[sys.executable, "-c", "while True: pass"]] * (os.cpu_count() or 1) if noisy else []
    with slow_store(told) as found, running(burners):
        done = subprocess.run(
            [sys.executable, __file__, *options],
            capture_output=True,
            text=True,
            timeout=60 + 10 * seconds,
            check=False,
            env={**os.environ, **found},
        )
    if done.returncode:
        raise RuntimeError(f"{name}: {done.stderr[-2000:]}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def compared(pipeline: Pipeline, seconds: float, snapshots: Path | None) -> dict[str, Any]:
    """Both sides, and what was predicted of the second."""
    now, better = (in_process(pipeline.name, is_better, seconds) for is_better in (False, True))
    snapshot = now["snapshot"]
    advice = next(iter(snapshot["advice"]), {"rule": snapshot["bottleneck"], "gain": None})
    if snapshots is not None:
        snapshots.mkdir(parents=True, exist_ok=True)
        _keep(snapshot, snapshots / f"{_file_name(pipeline.name)}.json", pipeline.rule)
    gain, predicted = better["samples_per_s"] / max(1e-9, now["samples_per_s"]), advice["gain"]
    return {
        "name": pipeline.name,
        "wanted": pipeline.rule,
        "found": advice["rule"],
        "is_right": advice["rule"] == pipeline.rule,
        "remedy": pipeline.remedy,
        "samples_per_s": now["samples_per_s"],
        "better_samples_per_s": better["samples_per_s"],
        "gain": gain,
        "predicted": predicted,
        "is_near": predicted is not None and abs(predicted / gain - 1) <= NEAR,
        "verdict": snapshot["verdict"],
        "cores_of_others": _cores_of_others(snapshot),
    }


def bound(name: str, seconds: float) -> dict[str, Any]:
    """A loop that no data limits."""
    found = in_process(name, False, seconds)
    snapshot = found.pop("snapshot")
    told = {one: snapshot[one] for one in ("bottleneck", "verdict")}
    return {"name": name, **found, **told, "cores_of_others": _cores_of_others(snapshot)}


def _cores_of_others(snapshot: dict[str, Any]) -> float:
    machine = snapshot["machine"]
    ours = machine["mean_process_cpu"] + machine["mean_children_cpu"]
    return max(0.0, float((machine["mean_cpu"] - ours) * machine["cores"]))


def _keep(snapshot: dict[str, Any], path: Path, rule: str) -> None:
    """A snapshot for the tests of the rules, without what says which machine it was."""
    kept = {**snapshot, "loader": {**snapshot["loader"], "host": "here", "pid": 1, "training": ""}, "exporters": {}}
    path.write_text(json.dumps({"rule": rule, "snapshot": kept}) + "\n", encoding="utf-8")


def _file_name(name: str) -> str:
    return "".join(letter if letter.isalnum() else "_" for letter in name.replace(",", "").lower())


def main() -> None:
    """Runs what is asked for, and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for option in ("--side", "--json", "--snapshots"):
        parser.add_argument(option)
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument("--seconds", type=float, default=5.0)
    for flag in ("--better", "--table"):
        parser.add_argument(flag, action="store_true")
    told = parser.parse_args()
    if told.side:
        print(json.dumps(side(told.side, told.better, told.seconds)))
        return
    if unknown := {*told.only} - {*_PIPELINES, *MODEL_BOUND}:
        parser.error(f"no pipeline {', '.join(sorted(unknown))}; there are {', '.join((*_PIPELINES, *MODEL_BOUND))}")
    path = None if told.json is None else Path(told.json)
    kept = {} if path is None or not path.exists() else json.loads(path.read_text(encoding="utf-8"))["found"]
    if told.table:
        print(_markdown(kept))
        return
    snapshots = None if told.snapshots is None else Path(told.snapshots)
    print(f"{'pipeline':<34}{'verdict':<30}{'predicted':>10}{'measured':>10}")
    for name in told.only or (*_PIPELINES, *MODEL_BOUND):
        if name in told.only or name not in kept:
            is_bound = name in MODEL_BOUND
            kept[name] = bound(name, told.seconds) if is_bound else compared(_PIPELINES[name], told.seconds, snapshots)
            _write(path, kept)
        print(_line(kept[name]), flush=True)
    print(_sums(kept))


def _write(path: Path | None, found: dict[str, Any]) -> None:
    if path is not None:
        machine = {"processor": platform.processor() or platform.machine(), "cpus": os.cpu_count(), "command": sys.argv}
        path.write_text(json.dumps({**machine, "found": found}, indent=1) + "\n", encoding="utf-8")


def _line(one: dict[str, Any]) -> str:
    if "wanted" not in one:
        return f"{one['name']:<34}{one['bottleneck']}"
    shown = "" if one["predicted"] is None else f"{one['predicted']:.2f}"
    verdict = one["found"] + ("" if one["is_right"] else " ✗")
    return f"{one['name']:<34}{verdict:<30}{shown:>10}{one['gain']:>10.2f}"


def _markdown(found: dict[str, dict[str, Any]]) -> str:
    rows = [
        f"| {one['name']} | `{one['found']}`{'' if one['is_right'] else ' (wrong)'} | {one['remedy']} | {_gain(one['predicted'])} | {_gain(one['gain'])} |"
        for one in found.values()
        if "wanted" in one
    ]
    return "\n".join(
        ["| pipeline | verdict | remedy | gain, predicted | measured |", "| --- | --- | --- | ---: | ---: |", *rows]
    )


def _gain(gain: float | None) -> str:
    return "" if gain is None else f"{gain:.2f}"


def _sums(found: dict[str, dict[str, Any]]) -> str:
    limited = [one for one in found.values() if "wanted" in one]
    others = [one["bottleneck"] == "consumer" for one in found.values() if "wanted" not in one]
    right, near = (sum(one[which] for one in limited) for which in ("is_right", "is_near"))
    return (
        f"verdict right: {right} of {len(limited)}; gain within {NEAR:.0%}: {near} of {len(limited)}; "
        f"no verdict of data: {sum(others)} of {len(others)} model-bound"
    )


if __name__ == "__main__":
    main()
