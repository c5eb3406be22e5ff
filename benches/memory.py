"""What loaders hold against what they may hold: formats × orders × budgets × kinds of data. Prints a table, or writes it into docs/reliability.md.

    python benches/memory.py [--formats parquet,arrow] [--kinds "small rows,64 MB blocks"] [--budgets 64,256] [--into docs/reliability.md]

Each cell is a process of its own. Its start is taken after everything was imported, a small dataset of the same format was read, and the data was opened; then
a loader with `memory=` gives a batch, nobody takes the next one until the loader holds no more than before, and after that 80
batches are taken. What counts is the most anonymous memory
(RssAnon and RssShmem of /proc/PID/status, every 4 ms, by another process) above the start. It is to be at most the budget, a tenth more, and one batch, which
the consumer holds. A plan that is refused is tried again with the lanes or the budget that the error names, as another cell.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from memory_data import FORMATS, KINDS, write

#: What a line of the table is of: format, kind of data, order.
Line: TypeAlias = tuple[str, str, str]

BUDGETS_MB = (64, 256, 1_000)
ORDERS = ("natural", "shuffled")
#: Seconds for which nobody takes a batch, at most, and for which batches are taken then, and how many.
_STALL_S, _TAKE_S, _TAKEN = 8.0, 20.0, 80
#: A cell that takes so many times its bound is ended.
_ENDED_AT = 4
_BEGIN, _END = "<!-- memory -->", "<!-- /memory -->"


@dataclass(frozen=True)
class Cell:
    """One measurement. lanes: of the batch, None for the plan's own; window_blocks: of the shuffle."""

    format: str
    kind: str
    order: str
    budget_mb: int
    lanes: int | None = None
    window_blocks: int | None = None


@dataclass(frozen=True)
class Found:
    """What came of it: bytes above the start at most, of a batch, and of the budget; or why it was refused."""

    peak_bytes: int = 0
    batch_bytes: int = 0
    budget_bytes: int = 0
    refused: str = ""
    failed: str = ""

    @property
    def is_kept(self) -> bool:
        """Whether it held no more than it may."""
        return not self.failed and (bool(self.refused) or self.peak_bytes <= 1.1 * self.budget_bytes + self.batch_bytes)


# In the process that reads


def read_cell(cell: Cell, folder: str) -> None:
    """Reads as a training does that stalls, and tells its parent where it is, a line of JSON each."""
    import gc

    import penstock as ps

    def plan(where: str, kind: str) -> Any:
        form = FORMATS[cell.format]
        dataset = ps.read(where, **form.options)
        if cell.order == "natural":
            return form.then(dataset)
        return form.then(dataset.shuffle(seed=0, window_blocks=cell.window_blocks, **_blocks(cell.format, kind)))

    with ps.Loader(plan(f"{folder}/small", "tiny").batch(16), memory="64MB") as loader:
        _ = [*loader]
    opened = plan(f"{folder}/data", cell.kind).batch(64, lanes=cell.lanes)
    gc.collect()
    print(json.dumps({"start": True}), flush=True)
    sys.stdin.readline()
    try:
        loader = ps.Loader(opened, memory=cell.budget_mb * 1_000_000)
    except ps.PlanError as error:
        print(json.dumps({"refused": str(error)}), flush=True)
        return
    with loader:
        steps = iter(loader)
        most = _size(next(steps))
        _wait(loader)
        until = time.monotonic() + _TAKE_S
        for number, batch in enumerate(steps):
            most = max(most, _size(batch))
            if number > _TAKEN or time.monotonic() > until:
                break
        print(json.dumps({"batch_bytes": most}), flush=True)


def _wait(loader: Any) -> None:
    """Until the loader, from which nobody takes a batch, holds no more than before."""
    before, until = -1, time.monotonic() + _STALL_S
    while time.monotonic() < until:
        time.sleep(0.3)
        if (now := loader.stats()["memory"]["held_bytes"]) == before:
            return
        before = now


def _size(batch: dict[str, Any]) -> int:
    return sum(int(column.nbytes) for column in batch.values())


def _blocks(format: str, kind: str) -> dict[str, Any]:
    """Blocks of formats whose files have none of that size."""
    rows = KINDS[kind].block_rows if kind in KINDS else None
    return {"block_rows": rows} if rows and not FORMATS[format].has_blocks else {}


# In the process that measures


def measure(cell: Cell, folder: str) -> Found:
    """One cell."""
    command = [sys.executable, __file__, "--cell", json.dumps(asdict(cell)), "--folder", folder]
    errors, said, most = list[str](), list[str](), 0
    budget_bytes = cell.budget_mb * 1_000_000
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stderr is not None
        listening = [threading.Thread(target=_listen, args=(child.stderr, errors))]
        child.stdout.readline()
        start = _held(child.pid)
        with suppress(BrokenPipeError):  # it failed before
            child.stdin.write("go\n")
            child.stdin.flush()
        listening.append(threading.Thread(target=_listen, args=(child.stdout, said)))
        for thread in listening:
            thread.start()
        while child.poll() is None:
            most = max(most, _held(child.pid) - start)
            if most > _ENDED_AT * budget_bytes:
                child.kill()
            time.sleep(0.004)
        for thread in listening:
            thread.join()
    told = json.loads(said[-1]) if said else {"failed": (errors or ["ended"])[-1].strip()[:200]}
    return Found(peak_bytes=most, budget_bytes=budget_bytes, **told)


def _listen(pipe: Iterable[str], lines: list[str]) -> None:
    lines.extend(pipe)


def _held(process: int) -> int:
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0
    return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith(("RssAnon", "RssShmem")))


def measured(cell: Cell, folder: str) -> Iterator[tuple[Cell, Found]]:
    """A cell, and if it was refused, the same with the lanes, and the window, that the error names."""
    found = measure(cell, folder)
    yield cell, found
    named = re.search(r"lanes=(\d+)\)(?: with shuffle\(…, window_blocks=(\d+)\))?", found.refused)
    if named and cell.lanes is None:
        fewer = replace(cell, lanes=int(named[1]), window_blocks=int(named[2]) if named[2] else None)
        yield fewer, measure(fewer, folder)


# The table


def table(rows: Sequence[tuple[Cell, Found]], before: str = "") -> str:
    """A line for each format, kind and order; a column for each budget. before: a table whose cells stay, where they were not measured again."""
    every, measured_now = _cells_of(before), dict[tuple[Line, int], list[tuple[Cell, Found]]]()
    for cell, found in rows:
        line = cell.format, cell.kind, cell.order
        measured_now.setdefault((line, cell.budget_mb), []).append((cell, found))
    for (line, budget), some in measured_now.items():
        every.setdefault(line, {})[budget] = _shown(some)
    budgets = sorted({budget for by_budget in every.values() for budget in by_budget})
    head = [
        f"| Format | Data | Order | {' | '.join(f'memory={budget:,} MB' for budget in budgets)} |",
        f"| --- | --- | --- | {' | '.join('---:' for _ in budgets)} |",
    ]
    ordered = sorted(every.items(), key=lambda one: _place(one[0]))
    lines = [[*line, *(by_budget.get(budget, "") for budget in budgets)] for line, by_budget in ordered]
    return "\n".join([*head, *(f"| {' | '.join(line)} |" for line in lines)])


def _cells_of(table: str) -> dict[Line, dict[int, str]]:
    """What stands in the cells of a table."""
    head, *lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.strip().split("\n")]
    budgets = [int(re.sub(r"\D", "", name)) for name in head[3:]]
    return {(format, kind, order): dict(zip(budgets, shown, strict=True)) for format, kind, order, *shown in lines[1:]}


def _place(line: Line) -> tuple[int, int, int]:
    """Where a line stands: as formats, and their kinds, are listed."""
    format, kind, order = line
    return [*FORMATS].index(format), FORMATS[format].kinds.index(kind), ORDERS.index(order)


def _shown(cells: Sequence[tuple[Cell, Found]]) -> str:
    return ", ".join(
        "**failed**" if found.failed else "refused" if found.refused
        else f"{'' if found.is_kept else '**'}{found.peak_bytes / 1e6:,.0f}{'' if found.is_kept else '**'}"
        + (f" (lanes={cell.lanes}{', window_blocks=1' if cell.window_blocks else ''})" if cell.lanes else "")
        for cell, found in cells
    )  # fmt: skip


def into(page: Path, rows: Sequence[tuple[Cell, Found]]) -> None:
    """Puts what was measured into the table between two marks of a page."""
    before, rest = page.read_text().split(_BEGIN)
    known, after = rest.split(_END)
    page.write_text(f"{before}{_BEGIN}\n{table(rows, known)}\n{_END}{after}")


def cells(formats: Sequence[str], kinds: Sequence[str], budgets_mb: Sequence[int], orders: Sequence[str]) -> list[Cell]:
    """Every combination that there is data of."""
    return [
        Cell(format, kind, order, budget_mb)
        for format in formats
        for kind in kinds
        if kind in FORMATS[format].kinds
        for order in orders
        for budget_mb in budgets_mb
    ]


def main() -> None:
    """Measures, and prints or writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, choices in (("formats", FORMATS), ("kinds", KINDS), ("budgets", BUDGETS_MB), ("orders", ORDERS)):
        parser.add_argument(f"--{name}", default=",".join(map(str, choices)))
    parser.add_argument(
        "--json", type=Path, help="where measurements are kept: those that are there are not made again"
    )
    parser.add_argument("--into", type=Path, help="the page whose table gets what was measured")
    parser.add_argument("--cell", help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.cell:
        read_cell(Cell(**json.loads(asked.cell)), asked.folder)
        return
    known = json.loads(asked.json.read_text()) if asked.json and asked.json.exists() else []
    rows = [(Cell(**cell), Found(**found)) for cell, found in known]
    done = {cell for cell, _ in rows if cell.lanes is None}
    wanted = cells(
        asked.formats.split(","), asked.kinds.split(","), [*map(int, asked.budgets.split(","))], asked.orders.split(",")
    )
    for format, kind in dict.fromkeys((cell.format, cell.kind) for cell in wanted if cell not in done):
        with tempfile.TemporaryDirectory() as folder:
            os.environ["XDG_CACHE_HOME"] = f"{folder}/cache"
            write(format, kind, Path(folder))
            for cell in wanted:
                if (cell.format, cell.kind) == (format, kind) and cell not in done:
                    for one, found in measured(cell, folder):
                        rows.append((one, found))
                        print(one, found, "kept" if found.is_kept else "NOT KEPT", file=sys.stderr, flush=True)
        if asked.json:
            asked.json.write_text(json.dumps([(asdict(cell), asdict(found)) for cell, found in rows], indent=0))
    if asked.into:
        into(asked.into, rows)
    else:
        print(table(rows))


if __name__ == "__main__":
    main()
