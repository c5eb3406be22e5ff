"""What each op of a plan did to a few rows: text for terminals, pictures side by side for pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from penstock.core.columns.op_step import OpStep
from penstock.core.columns.overlay import Overlay
from penstock.core.messages import printable
from penstock.observe.page_cells import Cells, mask_picture
from penstock.observe.picture import Picture, picture_of_pixels
from penstock.observe.rows_table import words

#: Drawn numbers that are listed below a picture.
_MOST_DRAWN = 12


class StepsTable:
    """Rows, each with the steps of its columns, as text (`str`) and as pictures in notebooks (`_repr_html_`). overlays, classes: see `RowsTable`."""

    def __init__(
        self,
        rows: Sequence[Mapping[str, Any]],
        steps: Sequence[Mapping[str, Sequence[OpStep]]],
        overlays: Mapping[str, Overlay],
        classes: Sequence[str] = (),
    ) -> None:
        self._rows, self._steps = rows, steps
        self._overlays, self._classes = overlays, classes

    def __repr__(self) -> str:
        lines = list[str]()
        for number, (row, columns) in enumerate(zip(self._rows, self._steps, strict=True)):
            lines.append(printable(f"row {number}{self._others(row, columns)}"))
            for name, steps in columns.items():
                lines.append(f"  {printable(name)}")
                wide = max((len(step.op) for step in steps), default=0)
                lines += [f"    {step.op.ljust(wide)}  {printable(_told(step))}".rstrip() for step in steps]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        cells = Cells(self._overlays, self._classes)
        parts = list[str]()
        for number, (row, columns) in enumerate(zip(self._rows, self._steps, strict=True)):
            lines = [
                f"<tr><th>{escape(printable(name))}</th>{''.join(self._cell(cells, name, row, step) for step in _with_last(steps))}</tr>"
                for name, steps in columns.items()
            ]
            head = escape(printable(f"row {number}{self._others(row, columns)}"))
            parts.append(f"<p>{head}</p><table>{''.join(lines)}</table>")
        return "".join(parts)

    def _others(self, row: Mapping[str, Any], columns: Mapping[str, Any]) -> str:
        return "".join(f"  {name}: {words(value)}" for name, value in row.items() if name not in columns)

    def _cell(self, cells: Cells, name: str, row: Mapping[str, Any], step: tuple[OpStep, bool]) -> str:
        behind, is_last = step
        values = {**row, **behind.columns} if is_last else behind.columns
        shown = cells.picture(name, values, self._picture(name, behind), behind.note or "no picture")
        told = escape(printable(_told(behind)))
        return f'<td style="vertical-align:top"><span title="{escape(printable(behind.given))}"><b>{escape(behind.op)}</b></span><br>{shown}<br><small>{told}</small></td>'

    def _picture(self, name: str, step: OpStep) -> Picture | None:
        if step.pixels is None or step.size is None:
            return None
        overlay = self._overlays.get(name)
        found = None
        if overlay is not None and overlay.kind == "mask":
            found = mask_picture(np.moveaxis(step.pixels, 2, 0))
        picture = picture_of_pixels(step.pixels) if found is None else found
        return Picture(kind=picture.kind, data=picture.data, size=step.size, note=picture.note)


def _with_last(steps: Sequence[OpStep]) -> list[tuple[OpStep, bool]]:
    """Each with whether it is the last one: what lies over the row lies over its picture."""
    return [(step, step is steps[-1]) for step in steps]


def _told(step: OpStep) -> str:
    """What there is to say of a step but its name."""
    size = "" if step.size is None else f"{step.size[1]} × {step.size[0]} {step.dtype}"
    drawn = [f"{name} {value:.4g}" for name, value in step.drawn.items()]
    more = [f"… {len(drawn) - _MOST_DRAWN} more"] if len(drawn) > _MOST_DRAWN else []
    return "  ".join(filter(None, (size, ", ".join([*drawn[:_MOST_DRAWN], *more]), step.note)))
