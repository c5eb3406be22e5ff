"""The figures of one loader over time: counters that never go back, though each pipeline counts from 0."""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from penstock.observe.exporters.figures import FIGURES, Figure, Labels
from penstock.observe.snapshot import Snapshot

#: What names of metrics may not hold in some of the systems that chart them.
_STRANGE = re.compile(r"[^\w .\-]", re.ASCII)


class FigureRead(NamedTuple):
    """A figure's value, and which one it is."""

    figure: Figure
    labels: Labels
    value: float

    @property
    def chart(self) -> str:
        """Its name beside a training's losses: "stage_busy_ratio/transform"."""
        parts = [value for name, value in self.labels if name != "kind"]
        return "/".join([self.figure.full_name, *(_STRANGE.sub("_", part) or "_" for part in parts)])


class Readings:
    """Reads snapshots of one loader, each after the one before. number: of the loader among those that write to one place."""

    def __init__(self, number: int = 0) -> None:
        self._begins = f"penstock/loader_{number}/" if number else "penstock/"
        self._last: dict[tuple[str, Labels], float] = {}
        self._before: dict[tuple[str, Labels], float] = {}
        self.batches = 0

    def read(self, snapshot: Snapshot) -> list[FigureRead]:
        """All that it tells. A figure that is no number is left out."""
        found = []
        for figure in FIGURES:
            for labels, value in figure.read(snapshot):
                if not isinstance(value, int | float) or not math.isfinite(value):
                    continue
                total = self._total(figure, labels, value) if figure.kind == "counter" else value
                found.append(FigureRead(figure, labels, total))
        return found

    def charts(self, snapshot: Snapshot) -> dict[str, float]:
        """What is drawn beside a training's losses, by name; `batches` is its place on their axis. A second loader's names begin with "penstock/loader_1/"."""
        found = self.read(snapshot)
        self.batches = next((int(one.value) for one in found if one.figure.name == "batches"), self.batches)
        return {self._begins + one.chart: float(one.value) for one in found if one.figure.is_charted}

    def _total(self, figure: Figure, labels: Labels, value: float) -> float:
        key = figure.name, labels
        last = self._last.get(key, 0.0)
        if value < last:  # some count over all pipelines, others begin anew
            self._before[key] = self._before.get(key, 0.0) + last
        self._last[key] = value
        return value + self._before.get(key, 0.0)
