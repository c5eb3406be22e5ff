"""The first rows of a plan as a table, or as pictures of what each op did to them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock.core.arguments import path_of
from penstock.core.columns.overlay import Overlay
from penstock.core.errors import PlanError
from penstock.core.files.whole import write_whole
from penstock.core.messages import quoted
from penstock.observe.page import page_of
from penstock.observe.rows_table import RowsTable
from penstock.observe.steps_table import StepsTable
from penstock.plan.nodes import Node, classes_of
from penstock.plan.overlays import overlay_of, overlays_of
from penstock.tools.few_rows import FewRows, length_of, row_of


def table_of(root: Node, rows: int, over: Mapping[str, Any]) -> RowsTable:
    """The first rows. over: by column, what it says of pictures, besides what the plan says."""
    overlays = {**overlays_of(root), **said(over)}
    with FewRows(root) as few:
        columns = dict[str, Any](few.head(rows))
    found = [row_of(columns, number) for number in range(length_of(columns))]
    _check_there(over, overlays, columns)
    return RowsTable(found, overlays, classes_of(root))


def steps_of(root: Node, rows: int, over: Mapping[str, Any]) -> StepsTable:
    """The first rows behind each op of their images; PlanError for a plan that has none."""
    overlays = {**overlays_of(root), **said(over)}
    with FewRows(root) as few:
        columns, steps = few.head_in_steps(rows)
    found = [row_of(columns, number) for number in range(length_of(columns))]
    if not any(steps) and found:
        raise PlanError(
            "show(steps=True): no op of images is seen at work in this plan; write it behind transform(image=[…]), and not behind a cache() that is filled"
        )
    _check_there(over, overlays, columns)
    return StepsTable(found, steps, overlays, classes_of(root))


def write_page(path: Any, table: RowsTable | StepsTable) -> None:
    """A table as a page of its own; PlanError where that cannot be written."""
    place = Path(path_of("show", path))
    write_whole(place, page_of(place.stem, [table._repr_html_()]).encode(errors="replace"))


def said(over: Mapping[str, Any]) -> dict[str, Overlay]:
    """What columns say of pictures, by the ops or descriptions that are given for them; PlanError for what is none."""
    found = dict[str, Overlay]()
    for name, given in over.items():
        ops = given if isinstance(given, (list, tuple)) else (given,)
        overlay = given if isinstance(given, Overlay) else overlay_of(ops)
        if overlay is None:
            raise PlanError(
                f"show({name}={quoted(given)}): says of no picture what lies over it; give Boxes(of=…), Mask(of=…) or KeyPoints(of=…) of penstock.image"
            )
        found[name] = overlay
    return found


def _check_there(over: Mapping[str, Any], overlays: Mapping[str, Overlay], columns: Mapping[str, Any]) -> None:
    for name in over:
        for column in (name, overlays[name].of, *overlays[name].labels):
            if column not in columns:
                raise PlanError(f"show({name}=…): no column {quoted(column)}; there are {', '.join(columns)}")
