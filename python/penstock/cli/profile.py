"""penstock profile: what is in a dataset, column by column, and how far another one has drifted from it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.console import progress
from penstock.cli.opening import open_dataset
from penstock.core.errors import PlanError
from penstock.profiling import Profile
from penstock.profiling import profile as profile_of

Data = Annotated[str, typer.Argument(metavar="DATA", help="A folder, a file, a quoted glob, or a saved profile.")]
Other = Annotated[str | None, typer.Argument(metavar="[OTHER]", help="Another one, which is compared with it.")]
Html = Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Write one page that needs nothing else.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print all figures as JSON.")]
Label = Annotated[str | None, typer.Option(metavar="COLUMN", help="The column whose classes are compared.")]
Rows = Annotated[int | None, typer.Option(min=1, metavar="N", help="Look at the first N rows. Default: all.")]
Images = Annotated[str, typer.Option(metavar="head|decode", help="Read the header of each image, or decode it.")]
Plan = Annotated[bool, typer.Option("--recipe", help="Print a plan for cleaning the columns, as Python code.")]
Save = Annotated[Path | None, typer.Option(metavar="FILE", help="Keep the profile of DATA, to compare with later.")]
Check = Annotated[bool, typer.Option("--check", help="With OTHER: exit status 1 unless all columns are stable.")]

#: How a saved profile begins.
_SAVED = b'{\n "kind": "penstock profile"'


def profile(
    data: Data,
    other: Other = None,
    html: Html = None,
    as_json: AsJson = False,
    label: Label = None,
    rows: Rows = None,
    images: Images = "head",
    recipe: Plan = False,
    save: Save = None,
    check: Check = False,
) -> None:
    """Show what is in each column: types, missing and distinct values, quantiles, outliers, frequent values, copies of rows, correlations.

    Reads the rows once, and columns of numbers twice, on all cores, in bounded memory. The figures do not depend on the order of the rows.

    With OTHER it shows how far that one has drifted from DATA, column by column: PSI (below 0.1 stable, below 0.25 moderate drift, then
    strong drift), the Kolmogorov-Smirnov statistic, the Jensen-Shannon distance, new and lost categories.

    With --recipe it prints a plan for cleaning and encoding the columns: Python code with a reason in each line.

    Examples:
        penstock profile train.parquet
        penstock profile train.csv --label y --html profile.html
        penstock profile 'data/train-*.parquet' --rows 100000 --recipe
        penstock profile train.parquet --save train.profile.json
        penstock profile train.profile.json today.parquet --check
        penstock profile photos --images decode --json | jq .columns.image.images.broken_first
    """
    if check and other is None:
        raise PlanError(
            "--check: compares with OTHER, which is missing; name both: penstock profile DATA OTHER --check"
        )
    if recipe and other is not None:
        raise PlanError("--recipe: is a plan for one dataset; leave OTHER out")
    found = _profile(data, label, rows, images)
    if save is not None:
        found.save(save)
    if recipe:
        print(found.recipe(), end="")
        return
    shown = found if other is None else found.compare(_profile(other, None, rows, images))
    if html is not None:
        shown.html(html)
    if as_json:
        print(shown.to_json())
    else:
        shown.show()
    if check and not getattr(shown, "is_stable", True):
        raise typer.Exit(1)


def _profile(path: str, label: str | None, rows: int | None, images: str) -> Profile:
    place = Path(path)
    if place.suffix == ".json" and place.is_file():
        with place.open("rb") as file:
            is_saved = file.read(len(_SAVED)) == _SAVED
        if is_saved:
            if label is not None:
                raise PlanError(f"--label {label}: {path} is a saved profile; make it anew with --label and --save")
            return Profile.load(place)
    dataset = open_dataset([path])
    if rows is not None:
        dataset = dataset.take(min(rows, len(dataset)))
    with progress("Profiling") as report:
        return profile_of(dataset, label=label, images=images, progress=report)
