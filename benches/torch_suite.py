"""PyTorch's own tests of its DataLoader, run with penstock.torch.DataLoader in its place.

    python benches/torch_suite.py [--source FILE_OR_URL] [--only TestDataLoader.test_len …] [--limit 300] [--json]

The source is pytorch/test/test_dataloader.py of the installed PyTorch's version; it is fetched from GitHub unless named. No test is edited: torch.utils.data.DataLoader is another class before they are
imported, also in processes that they start. They run three times, class by class in processes of their own: with PyTorch's loader, with ours, and with ours where batches go to processes at once, however short they
are. A test that differs is run again, alone. Of what passes with PyTorch's loader here, the bench says how much passes with ours, and why the rest does not; one without a reason (torch_suite_reasons.py) makes it
exit 1.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from environments import ensure
from torch_suite_reasons import REASONS
from work import HERE, environment

SIDES = {"torch": "PyTorch's loader", "penstock": "ours", "processes": "ours, in processes at once"}
URL = "https://raw.githubusercontent.com/pytorch/pytorch/v{version}/test/test_dataloader.py"
#: An interpreter that imports PyTorch and the tests may take so much longer.
_START_S = 120


class Outcome(NamedTuple):
    """What came of a test: passed, failed, skipped, crashed or hung, and what it said."""

    outcome: str
    said: str


def text_of(source: str) -> bytes:
    """The test-suite, of a path or a URL."""
    if not source.startswith(("http://", "https://")):
        return Path(source).read_bytes()
    with urllib.request.urlopen(source, timeout=60) as answer:
        return answer.read()


def surroundings(folder: Path, side: str) -> dict[str, str]:
    """Environment variables of a process that runs tests: its folder and what the suite needs beside PyTorch can be imported."""
    needed = [folder, *environment("torch_suite").glob("lib/python*/site-packages")]
    path = os.pathsep.join([*map(str, needed), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path, "PENSTOCK_SUITE_SIDE": side, "PYTORCH_TEST_WITH_SLOW": "1"}


def names_of(folder: Path) -> list[str]:
    """All tests of the suite in a folder."""
    results = folder / "names.jsonl"
    command = [sys.executable, str(folder / "torch_suite_side.py"), str(results)]
    done = subprocess.run(
        command, cwd=folder, env=surroundings(folder, "torch"), capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"the tests cannot be imported: {done.stderr.strip()[-2000:]}")
    return json.loads(results.read_text().splitlines()[-1])["tests"]


def run_side(folder: Path, side: str, names: list[str], limit_s: float) -> dict[str, Outcome]:
    """Runs tests, class by class; each may take limit_s."""
    found: dict[str, Outcome] = {}
    for _, group in groupby(names, lambda name: name.split(".")[0]):
        left = [*group]
        while left:
            found |= run_process(folder, side, left, limit_s)
            left = [name for name in left if name not in found]
    return found


def run_process(folder: Path, side: str, names: list[str], limit_s: float) -> dict[str, Outcome]:
    """Runs tests in one process, up to one that crashes it or hangs."""
    descriptor, path = tempfile.mkstemp(".jsonl", side, folder)
    os.close(descriptor)
    results = Path(path)
    command = [sys.executable, str(folder / "torch_suite_side.py"), path, *names]
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=surroundings(folder, side),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        is_late = False
        while process.poll() is None and not is_late:
            time.sleep(0.05)
            written = results.stat()
            is_late = time.time() - written.st_mtime > limit_s + (0 if written.st_size else _START_S)
    finally:
        with suppress(ProcessLookupError):  # with what its tests left behind
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    lines = [json.loads(line) for line in results.read_text().splitlines()]
    found = {line["test"]: Outcome(line["outcome"], line["said"]) for line in lines if "outcome" in line}
    if len(found) < len(names):
        last = lines[-1]["test"] if lines and "began" in lines[-1] else names[len(found)]
        said = f"no end within {limit_s:.0f} s" if is_late else f"the process ended with {process.returncode}"
        found[last] = Outcome("hung" if is_late else "crashed", said)
    return found


def again(folder: Path, found: dict[str, dict[str, Outcome]], limit_s: float) -> list[str]:
    """Runs tests that differ once more, alone, with all loaders; those that do not differ then, which depend on time."""
    differ = {name for side in SIDES for name in failures(found, side)}
    steady = set[str]()
    for name in sorted(differ):
        once = {side: run_process(folder, side, [name], limit_s) for side in SIDES}
        for side in SIDES:
            if once[side][name].outcome == "passed":
                found[side][name] = once[side][name]
        if any(name in failures(found, side) for side in SIDES):
            steady.add(name)
    return sorted(differ - steady)


def failures(found: Mapping[str, Mapping[str, Outcome]], side: str) -> list[str]:
    """Tests that pass with PyTorch's loader, and not with that of a side."""
    return [name for name, theirs in found["torch"].items() if theirs.outcome == "passed" != found[side][name].outcome]


def judge(found: Mapping[str, Mapping[str, Outcome]], reasons: Mapping[str, str]) -> dict[str, Any]:
    """The figures: tests that pass with PyTorch's loader, how many of them with ours, and why the others do not."""
    passing = sum(theirs.outcome == "passed" for theirs in found["torch"].values())
    sides = {}
    for side in [side for side in SIDES if side != "torch"]:
        missed = failures(found, side)
        sides[side] = {
            "passed": passing - len(missed),
            "failed": {name: reasons.get(name, "") for name in missed},
            "said": {name: found[side][name].said for name in missed},
        }
    kinds = [theirs.outcome for theirs in found["torch"].values()]
    return {"tests": {kind: kinds.count(kind) for kind in sorted({*kinds})}, "passing": passing, "sides": sides}


def main() -> int:
    """The command line: 1 if a test fails without a reason."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    version = importlib.metadata.version("torch").split("+")[0]
    parser.add_argument("--source", default=URL.format(version=version), help="a file, or a URL; %(default)s")
    parser.add_argument("--only", nargs="+", help="these tests, or all of these classes")
    parser.add_argument("--limit", type=float, default=300, help="seconds that a test may take")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    asked = parser.parse_args()
    if importlib.util.find_spec("expecttest") is None and (reason := ensure("torch_suite")):
        sys.exit(f"what the tests need beside PyTorch {reason}")
    text = text_of(asked.source)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        (folder / "test_dataloader.py").write_bytes(text)
        shutil.copy(HERE / "torch_suite_side.py", folder)
        names = names_of(folder)
        if asked.only:
            names = [name for name in names if {name, name.split(".")[0]} & {*asked.only}]
        found = {}
        for side, title in SIDES.items():
            print(f"{title}: {len(names)} tests …", file=sys.stderr, flush=True)
            found[side] = run_side(folder, side, names, asked.limit)
        unsteady = again(folder, found, asked.limit)
    figures = {
        "source": asked.source,
        "sha256": hashlib.sha256(text).hexdigest(),
        "torch": version,
        "python": platform.python_version(),
        **judge(found, REASONS),
        "passed when run again": unsteady,
    }
    print(json.dumps(figures, indent=1) if asked.json else shown(figures))
    return int(any("" in side["failed"].values() for side in figures["sides"].values()))


def shown(figures: Mapping[str, Any]) -> str:
    """The figures for a terminal."""
    tests = ", ".join(f"{count} {kind}" for kind, count in figures["tests"].items())
    lines = [f"PyTorch {figures['torch']}, tests of {figures['source']}", f"with PyTorch's loader: {tests}"]
    for side, result in figures["sides"].items():
        lines.append(f"{SIDES[side]}: {result['passed']} of {figures['passing']} pass")
        lines += [
            f"  {name}: {why or 'NO REASON: ' + result['said'][name].strip()[-1500:]}"
            for name, why in result["failed"].items()
        ]
    if figures["passed when run again"]:
        lines.append(f"passed when run again: {', '.join(figures['passed when run again'])}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
