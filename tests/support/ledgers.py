"""Ledgers for tests: written by loaders of any number of ranks, and changed behind their backs."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import penstock as ps
from penstock.observe.ledger.findings import Report
from penstock.observe.ledger.format import (
    HEAD_BYTES,
    MAGIC,
    Buffer,
    LedgerHeader,
    RecordKind,
    TakenSteps,
    check_head,
    frame,
)
from penstock.observe.ledger.reader import LedgerFile, ledger_paths, read_ledger
from penstock.observe.ledger.verify import verify


def train(dataset: ps.Dataset, folder: Path, world: int, steps: int, state: Any = None) -> tuple[Any, list[ps.Loader]]:
    """So many steps on so many ranks that step together, from a state on: the state behind them, and the loaders, which are not closed."""
    ranks = [ps.Loader(dataset, rank=rank, world_size=world, ledger=folder) for rank in range(world)]
    for rank in ranks:
        if state is not None:
            rank.load_state_dict(state)
    while steps > 0:
        for _ in zip(*ranks, strict=True):
            steps -= 1
            if steps == 0:
                states = [json.loads(json.dumps(rank.state_dict())) for rank in ranks]
                assert all(state == states[0] for state in states)
                return states[0], ranks
    raise AssertionError("train at least one step")


def report_of(folder: Path) -> Report:
    return verify([str(folder)])


def kinds(report: Report) -> set[str]:
    return {finding.wrong.value for finding in report.wrong}


def files_of(folder: Path) -> list[LedgerFile]:
    found = [read_ledger(path) for path in ledger_paths([str(folder)])]
    assert None not in found
    return [file for file in found if file is not None]


def frames_of(path: str) -> list[tuple[int, bytes]]:
    """Kind and body of every record of a whole file."""
    data, at, found = Path(path).read_bytes(), len(MAGIC), []
    while at < len(data):
        kind, length, _ = check_head(data[at : at + HEAD_BYTES], path)
        found.append((kind, data[at + HEAD_BYTES : at + HEAD_BYTES + length]))
        at += HEAD_BYTES + length
    return found


def rewrite(
    path: str,
    steps: Callable[[TakenSteps], TakenSteps | None] = lambda steps: steps,
    header: Callable[[LedgerHeader], LedgerHeader] = lambda header: header,
) -> None:
    """A file with other records, and checksums that fit; None drops one."""
    records: list[Buffer] = [MAGIC]
    for kind, body in frames_of(path):
        if kind == RecordKind.HEADER:
            records += frame(kind, header(LedgerHeader.decode(body)).encode())
        elif kind != RecordKind.STEPS:
            records += frame(kind, body)
        elif (changed := steps(TakenSteps.decode(body))) is not None:
            records += frame(kind, *changed.encode())
    Path(path).write_bytes(b"".join(records))


def at_step(epoch: int, step: int, change: Callable[[Any], Any]) -> Callable[[TakenSteps], TakenSteps]:
    """Changes the ids of one step: `change` gets a copy of them and returns others."""

    def changed(steps: TakenSteps) -> TakenSteps:
        head = steps.head
        if head.epoch != epoch or not head.step <= step < head.step + head.steps:
            return steps
        ids = steps.ids.reshape(head.steps, -1).copy()
        ids[step - head.step] = change(ids[step - head.step].copy())
        return replace(steps, ids=ids.reshape(-1))

    return changed
