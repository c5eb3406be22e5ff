"""penstock verify: proves from ledgers that training took every row once."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli.console import err, escape, out, print_json, progress, table
from penstock.cli.opening import Json, open_dataset
from penstock.core.errors import PlanError
from penstock.dataset import Dataset
from penstock.observe.ledger.findings import EpochFound, Report
from penstock.observe.ledger.reader import data_of
from penstock.observe.ledger.verify import verify as verify_ledgers
from penstock.observe.ledger.words import epoch_state, figures, resume_lines, summary, verdict, wrong_lines

Ledgers = Annotated[
    list[str], typer.Argument(metavar="LEDGER...", help="The folder that was Loader(…, ledger=…), or files of it.")
]
Data = Annotated[
    str | None, typer.Option(help="The data that was trained on: checks its digest, and names rows by file and record.")
]

#: As many epochs are listed, half of them from each end.
_SHOWN = 20


def verify(ledgers: Ledgers, data: Data = None, as_json: Json = False) -> None:
    """Prove from ledgers that a training run lost no row and repeated none.

    Pass the ledgers of all ranks, from before and after every restart, on any numbers of ranks: usually one folder. Each
    recorded step is put in its place of the global batch. Steps that were taken again after a resume must have had the same
    rows. Every step of an epoch must be there, and every row as often as the plan says. The exit status is 1 if
    something is wrong, and the first lines say what.

    A loader writes a ledger when you ask for one: penstock.Loader(dataset, ledger="runs/ledger").

    Examples:
        penstock verify runs/ledger
        penstock verify node0/ledger node1/ledger
        penstock verify runs/ledger --data 'data/train-*.tfrecord'
        penstock verify runs/ledger --json
    """
    opened = None if data is None else open_dataset([data])
    if opened is not None:
        _check_data(ledgers, opened)
    with progress("Verifying") as report:
        found = verify_ledgers(ledgers, report)
    if as_json:
        print_json(figures(found))
    else:
        _show(found, opened)
    if not found.is_well:
        raise typer.Exit(1)


def _check_data(ledgers: list[str], opened: Dataset) -> None:
    recorded = data_of(ledgers)
    if recorded != opened.digest:
        raise PlanError(
            f"--data: its digest is {opened.digest}, and the ledgers are of {recorded}; pass the data that was trained on, opened as it "
            f"was, or leave --data out (a plan of several datasets has a digest of its own)"
        )


def _show(found: Report, opened: Dataset | None) -> None:
    for line in wrong_lines(found):
        err.print(f"[bold red]{escape(line)}[/]", soft_wrap=True)
    if opened is not None:
        _show_places(found, opened)
    out.print(summary(found), soft_wrap=True)
    if found.epochs:
        out.print(_epochs(found.epochs))
    for line in [*resume_lines(found), *found.notes]:
        out.print(escape(line), soft_wrap=True)
    out.print(f"[bold {'green' if found.is_well else 'red'}]{verdict(found)}[/]", soft_wrap=True)


def _show_places(found: Report, opened: Dataset) -> None:
    for sample in sorted({sample for finding in found.wrong for sample in finding.ids})[:_SHOWN]:
        if sample < len(opened):
            err.print(f"  row {sample:,} is {escape(opened.source.manifest.place(sample))}", soft_wrap=True)


def _epochs(epochs: list[EpochFound]) -> object:
    shown = table(">epoch", *([">node"] if epochs[0].node is not None else []), ">steps", ">of", ">rows", "")
    half = _SHOWN // 2
    listed = epochs if len(epochs) <= _SHOWN else [*epochs[:half], *epochs[-half:]]
    for number, one in enumerate(listed):
        if number == half and len(epochs) > _SHOWN:
            shown.add_row("…")
        node = [] if one.node is None else [str(one.node)]
        shown.add_row(
            str(one.epoch),
            *node,
            f"{one.complete_steps:,}",
            "" if one.steps is None else f"{one.steps:,}",
            f"{one.rows:,}",
            epoch_state(one),
        )
    return shown
