"""Pipelines with a known bottleneck: is the verdict right, and is the gain what was predicted, once the remedy is applied?

    python benches/bottlenecks.py [--only NAME] [--seconds 5] [--json FILE] [--snapshots FOLDER]

24 pipelines, each as it is and with its remedy, and ten loops that data does not limit, each in a process of its own. The rate counts after the first batch; the first seconds, in which the
tuner looks around, are left out. The verdict is that of `stats()` at the end. The gain is predicted by the first side alone.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import penstock as ps
from bottleneck_pipelines import HERE, MODEL_BOUND, PIPELINES, Made, Pipeline

#: A predicted gain is right where the rate that it gives is so near to the measured one.
NEAR = 0.15


@contextlib.contextmanager
def slow_store(told: dict[str, float]) -> Iterator[None]:
    """The store that a pipeline reads from, if it does, and an environment in which it is found."""
    if not told:
        yield
        return
    command = [sys.executable, str(HERE / "bottleneck_store.py"), json.dumps(told)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        keys = dict.fromkeys(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), "penstock")
        os.environ.update(
            {
                **keys,
                "AWS_REGION": "us-east-1",
                "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
                "AWS_ALLOW_HTTP": "true",
            }
        )
        yield
    finally:
        server.kill()
        server.wait()


def run(made: Made, seconds: float) -> dict[str, Any]:
    """Trains for so long, twice: what is tuned in the first half counts in the second."""
    with ps.Loader(made.dataset, **made.options) as loader:
        began_at, samples, counted_at, before = time.perf_counter(), 0, 0.0, 0
        until = began_at + seconds
        while time.perf_counter() < until:
            for batch in loader:
                samples += len(next(iter(batch.values())))
                made.step(batch)
                now = time.perf_counter()
                if not counted_at and now > began_at + seconds / 2:
                    counted_at, before = now, samples
                if now > until:
                    break
        rate = (samples - before) / (time.perf_counter() - counted_at)
        return {"samples_per_s": rate, "snapshot": loader.stats().as_dict()}


def side(name: str, is_better: bool, seconds: float) -> dict[str, Any]:
    """One side, in this process."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PENSTOCK_OBSERVE_DIR"] = f"{folder}/observe"
        if name in MODEL_BOUND:
            return run(MODEL_BOUND[name](Path(folder)), seconds)
        pipeline = next(one for one in PIPELINES if one.name == name)
        with slow_store(pipeline.store):
            made = pipeline.make(is_better, Path(folder))
            with pipeline.around(is_better):
                return run(made, seconds)


def in_process(name: str, is_better: bool, seconds: float) -> dict[str, Any]:
    """One side, in a process of its own."""
    command = [
        sys.executable,
        __file__,
        "--side",
        name,
        "--seconds",
        str(seconds),
        *(["--better"] if is_better else []),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60 + 10 * seconds, check=False)
    if done.returncode:
        raise RuntimeError(f"{name}: {done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def compared(pipeline: Pipeline, seconds: float, snapshots: Path | None) -> dict[str, Any]:
    """Both sides, and what was predicted of the second."""
    now, better = (in_process(pipeline.name, is_better, seconds) for is_better in (False, True))
    advice = now["snapshot"]["advice"][0]
    if snapshots is not None:
        snapshots.mkdir(parents=True, exist_ok=True)
        _keep(now["snapshot"], snapshots / f"{pipeline.name}.json", pipeline.rule)
    gain, predicted = better["samples_per_s"] / max(1e-9, now["samples_per_s"]), advice["gain"]
    if pipeline.rule == "long_start":  # what is gained is the start
        gain = now["snapshot"]["first_batch_s"] / max(1e-9, better["snapshot"]["first_batch_s"])
    shown = "" if predicted is None else f"{predicted:.2f}"
    print(
        f"{pipeline.name:<34}{advice['rule'] + ('' if advice['rule'] == pipeline.rule else ' ✗'):<30}{shown:>10}{gain:>10.2f}",
        flush=True,
    )
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
        "verdict": now["snapshot"]["verdict"],
    }


def _keep(snapshot: dict[str, Any], path: Path, rule: str) -> None:
    """A snapshot for the tests of the rules, without what says which machine it was."""
    kept = {**snapshot, "loader": {**snapshot["loader"], "host": "here", "pid": 1, "training": ""}, "exporters": {}}
    path.write_text(json.dumps({"rule": rule, "snapshot": kept}, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    """Runs what is asked for, and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    for option in ("--only", "--side", "--json", "--snapshots"):
        parser.add_argument(option)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--better", action="store_true")
    told = parser.parse_args()
    if told.side:
        print(json.dumps(side(told.side, told.better, told.seconds)))
        return
    snapshots = None if told.snapshots is None else Path(told.snapshots)
    found = [compared(one, told.seconds, snapshots) for one in _shown(PIPELINES, told.only)]
    bound = [
        {"name": name, **in_process(name, False, told.seconds)} for name in MODEL_BOUND if told.only in (None, name)
    ]
    for one in bound:
        one["bottleneck"] = one.pop("snapshot")["bottleneck"]
        print(f"{one['name']:<34}{one['bottleneck']}")
    right, near = (sum(one[which] for one in found) for which in ("is_right", "is_near"))
    print(
        f"verdict right: {right} of {len(found)}; gain within {NEAR:.0%}: {near} of {len(found)}; no verdict of data: {sum(one['bottleneck'] == 'consumer' for one in bound)} of {len(bound)} model-bound"
    )
    if told.json:
        machine = {"processor": platform.processor() or platform.machine(), "cpus": os.cpu_count(), "command": sys.argv}
        Path(told.json).write_text(
            json.dumps({**machine, "pipelines": found, "model_bound": bound}, indent=1), encoding="utf-8"
        )


def _shown(pipelines: tuple[Pipeline, ...], only: str | None) -> Iterator[Pipeline]:
    print(f"{'pipeline':<34}{'verdict':<30}{'predicted':>10}{'measured':>10}")
    yield from (one for one in pipelines if only in (None, one.name))


if __name__ == "__main__":
    main()
