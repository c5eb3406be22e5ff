"""What every side of the bench of resuming shares: one rank's run, from a state or from the beginning.

A side is a table of plans: `main("Grain", version, {"shuffle": make, "mix": NoFeature("…")}, write=write)`. `make(run, parts)` returns a `Session`; parts are
the states that all ranks of the interrupted run saved, or None at the beginning. It raises NoWay where the peer documents no way to go on with these.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from resume_rows import BATCH, MOST_STEPS, SAVED_STEP, Numbers, write_steps


@dataclass(frozen=True, kw_only=True)
class Run:
    """One rank of a run. saved_ranks: how many ranks saved the state that it goes on from; 0 at the beginning."""

    data: Path
    plan: str
    rank: int
    ranks: int
    saved_ranks: int

    @property
    def batch(self) -> int:
        """Rows of a step on this rank."""
        return BATCH // self.ranks


@dataclass(frozen=True, kw_only=True)
class Session:
    """The row numbers (of "pack": tokens) of each step, and the state after the steps taken so far.

    rows_read: how many rows the peer asked the source for, where a wrapper can count them.
    """

    steps: Iterator[Numbers]
    state: Callable[[], Any]
    rows_read: Callable[[], int] | None = None


@dataclass(frozen=True)
class NoFeature:
    """A plan that the peer has no feature for: says what was looked for."""

    reason: str


class NoWay(Exception):
    """The peer documents no way to go on: says what was looked for."""


Make = Callable[[Run, list[Any] | None], Session]


def same_ranks(run: Run, parts: list[Any], reason: str) -> Any:
    """The own part of this rank, of a peer whose states are each of one rank."""
    if len(parts) != run.ranks:
        raise NoWay(reason)
    return parts[run.rank]


def main(
    peer: str,
    version: str,
    plans: Mapping[str, Make | NoFeature],
    *,
    write: Callable[[Path], None],
    ways: Mapping[str, str],
    warm: Callable[[Run], object] | None = None,
    done: Callable[[], object] | None = None,
) -> None:
    """A side's command line: --write its files, or take one rank's steps and print one line of JSON. ways: by plan, the calls that save and load.

    warm: takes a step of another session, for peers that import parts of themselves, which counts as bytes read, only then. done: called at the end, by peers whose ranks talk to each other.
    """
    arguments = _arguments(peer)
    if arguments.write:
        write(arguments.data)
        return
    plan = plans[arguments.plan]
    found: dict[str, Any] = {"peer": peer, "version": version, "way": ways.get(arguments.plan, ways.get("", ""))}
    if isinstance(plan, NoFeature):
        print(json.dumps(found | {"no_feature": plan.reason}))
        return
    parts = _parts(arguments.state) if arguments.state else None
    run = Run(
        data=arguments.data,
        plan=arguments.plan,
        rank=arguments.rank,
        ranks=arguments.ranks,
        saved_ranks=len(parts or ()),
    )
    if warm:
        warm(run)
    print(json.dumps(found | _take(plan, run, parts, arguments.out)), flush=True)
    if done:
        done()
    os._exit(0)  # whatever threads and shared memory a peer has left: the figures are out


def _take(make: Make, run: Run, parts: list[Any] | None, out: Path) -> dict[str, Any]:
    """One rank's steps to the end of its epoch, into `out`; its state after SAVED_STEP steps, if it began at the beginning."""
    out.mkdir(parents=True, exist_ok=True)
    before = bytes_read()
    try:
        session = make(run, parts)
        steps: list[Numbers] = []
        found: dict[str, Any] = {}
        for ids in session.steps:
            steps.append(ids)
            if parts is None and len(steps) == SAVED_STEP:
                state = pickle.dumps(session.state())
                (out / f"state-{run.rank}.pickle").write_bytes(state)
                found["state_bytes"] = len(state)
            if len(steps) == MOST_STEPS - (SAVED_STEP if parts else 0):
                break
    except NoWay as reason:
        return {"no_way": str(reason)}
    except Exception as error:
        return {"refused": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"}
    write_steps(out / f"steps-{run.rank}.npz", steps)
    rows_read = session.rows_read() if session.rows_read else None
    return found | {"steps": len(steps), "bytes": bytes_read() - before, "rows": rows_read}


def bytes_read() -> int:
    """What this process has read by read(2) and its kin so far; memory that is mapped does not count."""
    for line in Path("/proc/self/io").read_text().splitlines():
        if line.startswith("rchar"):
            return int(line.split()[1])
    raise ValueError("no rchar in /proc/self/io")


def _parts(folder: Path) -> list[Any]:
    return [pickle.loads(path.read_bytes()) for path in sorted(folder.glob("state-*.pickle"))]


def _arguments(peer: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=f"One rank of {peer}, resumed or not.")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--write", action="store_true", help="write the peer's files")
    parser.add_argument("--plan")
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--state", type=Path, help="the folder of the interrupted run")
    parser.add_argument("--out", type=Path, help="where steps and state go")
    return parser.parse_args()
