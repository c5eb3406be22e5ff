"""penstock report: what a run was like, from the file that observe="jsonl:FILE" wrote."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from penstock.cli.console import out, print_json, table
from penstock.cli.opening import Json, keep_inputs
from penstock.core.errors import DataError
from penstock.core.files.whole import write_whole
from penstock.core.messages import counted, printable
from penstock.observe.history import History, histories_of
from penstock.observe.page import page_of
from penstock.observe.report import report_text
from penstock.observe.run_file import each_snapshot
from penstock.observe.run_html import beside_parts, run_parts
from penstock.observe.run_words import differences, facts_of, headline, rows_beside
from penstock.observe.snapshot import Snapshot
from penstock.observe.snapshot_of import snapshot_of

Run = Annotated[Path, typer.Argument(metavar="RUN", help="A file that observe='jsonl:FILE' wrote.")]
Other = Annotated[Path | None, typer.Argument(metavar="[OTHER]", help="Another one, which is compared with it.")]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write one HTML page that needs nothing else.")
]

#: Loaders of a run that are shown, those with the most samples.
_SHOWN = 6


def report(run: Run, other: Other = None, output: Output = None, as_json: Json = False) -> None:
    """Show what a run was like: what limited it, its stages, and what to do; with OTHER also what is different there.

    With -o it writes a page: the way of an item through the stages, the rate over time with what the tuner did, latencies, requests, memory, GPUs, ranks. A page has at most 300 KB, however long
    the run was, no script, and needs nothing from elsewhere.

    Files come from Loader(…, observe="jsonl:run.jsonl") or PENSTOCK_OBSERVE=jsonl:run.jsonl. One of a run that goes on, or was killed, can be read, too.

    Examples:
        penstock report run.jsonl
        penstock report run.jsonl -o run.html
        penstock report before.jsonl after.jsonl -o both.html
        penstock report run.jsonl --json | jq '.loaders[0].samples_per_s'
    """
    if output is not None:
        keep_inputs(output, run, other)
    runs = [_histories(path) for path in (run, other) if path is not None]
    names = _names(run, other)
    if output is not None:
        parts = run_parts(runs[0]) if other is None else beside_parts(runs, names)
        write_whole(output, page_of(" beside ".join(names[: len(runs)]), parts).encode(errors="replace"))
        out.print(f"wrote {output}", markup=False, soft_wrap=True)
    if as_json:
        print_json(_facts(runs, names))
    elif output is None:
        _print(runs, names)


def _histories(path: Path) -> list[History]:
    found = histories_of(_snapshots(path))
    if not found:
        raise DataError(
            f"{path}: holds no snapshot; a loader writes the first one half a second after its first pass began"
        )
    return found


def _snapshots(path: Path) -> Iterator[Snapshot]:
    for number, values in enumerate(each_snapshot(path), 1):
        try:
            yield snapshot_of(values)
        except DataError as error:
            raise DataError(f"{path}, snapshot {number}: {error}; pass what observe='jsonl:FILE' wrote") from None


def _names(run: Path, other: Path | None) -> list[str]:
    """What the runs are called: their files' names, with folders where these are alike."""
    if other is None:
        return [run.name]
    return (
        [run.name, other.name]
        if run.name != other.name
        else [str(run), str(other)]
        if run != other
        else [run.name, f"{run.name} (again)"]
    )


def _facts(runs: Sequence[Sequence[History]], names: Sequence[str]) -> dict[str, Any]:
    told = [{"file": name, "loaders": [facts_of(one) for one in run]} for name, run in zip(names, runs, strict=True)]
    if len(runs) == 1:
        return told[0]
    one, other = (run[0] for run in runs)
    figures = [{"what": what, "one": a, "other": b, "difference": says} for what, a, b, says in rows_beside(one, other)]
    return {"differences": differences(one, other, names), "figures": figures, "runs": told}


def _print(runs: Sequence[Sequence[History]], names: Sequence[str]) -> None:
    if len(runs) == 2:
        one, other = (run[0] for run in runs)
        _lines(differences(one, other, names))
        shown = table("", f">{names[0]}", f">{names[1]}", "difference")
        for row in rows_beside(one, other):
            shown.add_row(*map(printable, row))
        out.print()
        out.print(shown)
        return
    for place, told in enumerate(runs[0][:_SHOWN]):
        if place:
            out.print()
        name = f"{told.now.loader.name}; " if told.now.loader.name else ""
        _lines([f"{name}{headline(told)}", *told.notes, "", report_text(told.now)])
    if left := runs[0][_SHOWN:]:
        _lines([f"\nand {counted(len(left), 'loader')} more, with fewer samples each: --json has them all"])


def _lines(lines: Sequence[str]) -> None:
    for line in lines:
        out.print(line, markup=False, soft_wrap=True)
