"""What a page shows of a dataset's first rows: boxes and masks over images, and what each op does to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from html import escape
from typing import Annotated

import typer

from penstock.cli.opening import Ops, image_columns, usual_chain
from penstock.core.columns.overlay import Overlay
from penstock.core.errors import PenstockError, PlanError
from penstock.core.messages import printable
from penstock.dataset import Dataset
from penstock.plan.overlays import overlays_of
from penstock.tools.seeing import steps_of, table_of

_ROWS = 3


class BoxFormat(StrEnum):
    """What the four numbers of a box are."""

    XYXY = "XYXY"
    XYWH = "XYWH"
    CXCYWH = "CXCYWH"


BoxColumn = Annotated[str | None, typer.Option("--boxes", metavar="COLUMN", help="With --html: boxes to draw.")]
Format = Annotated[
    BoxFormat, typer.Option("--box-format", help="What they are: edges; edge and size (COCO); middle and size.")
]
LabelColumn = Annotated[
    str | None, typer.Option("--labels", metavar="COLUMN", help="With --boxes: a label for each box.")
]
MaskColumn = Annotated[str | None, typer.Option("--mask", metavar="COLUMN", help="With --html: masks to draw.")]
StepOps = Annotated[Ops | None, typer.Option("--ops", help="With --html: show what each op does to images.")]


@dataclass(frozen=True, kw_only=True)
class Seeing:
    """What to draw over the images of the first rows, and which ops to show at work."""

    boxes: str | None
    box_format: BoxFormat
    labels: str | None
    mask: str | None
    ops: Ops | None

    def check(self, *, is_page: bool) -> None:
        """PlanError for options that do nothing."""
        asked = {"--boxes": self.boxes, "--mask": self.mask, "--ops": self.ops}
        for option, value in asked.items():
            if value is not None and not is_page:
                raise PlanError(f"{option}: is for the page that --html writes, which is missing; pass both")
        if self.labels is not None and self.boxes is None:
            raise PlanError("--labels: names what boxes are, and --boxes is missing; pass both")

    def parts(self, dataset: Dataset) -> list[str]:
        """HTML for the page; what fails is told there, but for options that name what is not there."""
        over = self._over(dataset)
        shows = over or overlays_of(dataset.root)
        found = (
            ["<h2>First rows</h2>", _or_why(lambda: table_of(dataset.root, _ROWS, over)._repr_html_())] if shows else []
        )
        if self.ops is not None and self.ops is not Ops.none:
            plan = dataset.transform(**{_images(dataset, "--ops", is_file=True): usual_chain(self.ops)})
            found += ["<h2>What each op does</h2>", _or_why(lambda: steps_of(plan.root, _ROWS, {})._repr_html_())]
        return found

    def _over(self, dataset: Dataset) -> dict[str, Overlay]:
        found = dict[str, Overlay]()
        labels = () if self.labels is None else (self.labels,)
        for option, column in (("--boxes", self.boxes), ("--mask", self.mask), ("--labels", self.labels)):
            if column is not None and column not in dataset.spec:
                raise PlanError(f"{option} {column}: no such column; there are {', '.join(dataset.spec)}")
        if self.boxes is not None:
            of = _images(dataset, "--boxes")
            found[self.boxes] = Overlay(kind="boxes", of=of, format=self.box_format.value, labels=labels)
        if self.mask is not None:
            found[self.mask] = Overlay(kind="mask", of=_images(dataset, "--mask", besides=self.mask))
        return found


def _images(dataset: Dataset, option: str, *, besides: str = "", is_file: bool = False) -> str:
    """The column of images that an option is about: of files, or of pixels; PlanError if there is none."""
    found = [name for name in image_columns(dataset) if dataset.spec[name].shape == () and name != besides]
    if not found and not is_file:
        axes = {name: field.shape for name, field in dataset.spec.items() if field.dtype == "uint8" and name != besides}
        found = [name for name, shape in axes.items() if len(shape) == 3 and {1, 3, 4} & {shape[0], shape[2]}]
    if not found:
        raise PlanError(f"{option}: no column holds images (columns: {', '.join(dataset.spec)}); leave {option} out")
    return found[0]


def _or_why(made: Callable[[], str]) -> str:
    try:
        return made()
    except PenstockError as error:
        return f'<p class="warning">{escape(printable(str(error)))}</p>'
