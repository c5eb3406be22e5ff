"""observe="emf:metrics.log": lines from which Amazon CloudWatch makes metrics; "emf:-" writes them to stdout, for Lambda and containers.

The embedded metric format: docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from typing import Any

from penstock.observe.events import Event
from penstock.observe.exporters.figures import Labels
from penstock.observe.exporters.files import AppendedFile, local_path
from penstock.observe.exporters.protocol import Exporter
from penstock.observe.exporters.readings import FigureRead
from penstock.observe.exporters.shared import Shared, SharedThing, SharingExporter
from penstock.observe.snapshot import Snapshot

_NAMESPACE = "Penstock"
#: Metrics that one line may have.
_MOST_METRICS = 100
_UNITS = {"seconds": "Seconds", "bytes": "Bytes", "": "Count", "ratio": "None", "watts": "None"}
_DIMENSIONS = {
    "loader": "Loader",
    "rank": "Rank",
    "stage": "Stage",
    "gpu": "Gpu",
    "decoder": "Decoder",
    "cache": "Cache",
    "percentile": "Percentile",
}


class EmfPlace(SharedThing):
    """A file, or stdout."""

    def __init__(self, path: str) -> None:
        self._file = None if path == "-" else AppendedFile("emf", path)

    def append(self, lines: bytes) -> None:
        """Adds lines."""
        if self._file is not None:
            self._file.append(lines)
            return
        sys.stdout.write(lines.decode())
        sys.stdout.flush()

    def end(self) -> None:
        """Closes it."""
        if self._file is not None:
            self._file.close()


_PLACES = Shared[EmfPlace]()


class EmfLines(SharingExporter[EmfPlace]):
    """Writes lines. Counters are told as what came since the last snapshot, which CloudWatch sums up."""

    def __init__(self, path: str) -> None:
        super().__init__(_PLACES, path if path == "-" else os.path.abspath(path), lambda: EmfPlace(path))
        self._last: dict[tuple[str, Labels], float] = {}

    def write(self, snapshot: Snapshot, events: list[Event]) -> None:
        """Adds a line for each set of dimensions."""
        place = self.place
        readings = [self._since_last(one) for one in place.readings.read(snapshot)]
        lines = emf_lines(snapshot, readings, place.number)
        place.held.append("".join(f"{json.dumps(one, allow_nan=False)}\n" for one in lines).encode())

    def _since_last(self, one: FigureRead) -> FigureRead:
        if one.figure.kind != "counter":
            return one
        key = one.figure.name, one.labels
        last, self._last[key] = self._last.get(key, 0.0), one.value
        return one._replace(value=one.value - last)


def emf_lines(snapshot: Snapshot, readings: list[FigureRead], number: int) -> Iterator[dict[str, Any]]:
    """A document for each set of dimensions, or several where it has more metrics than one may."""
    of_loader = {"Loader": str(number), "Rank": str(snapshot.loader.rank)}
    groups: dict[tuple[tuple[str, str], ...], list[FigureRead]] = {}
    for one in readings:
        dimensions = {_DIMENSIONS[name]: _ascii(value) for name, value in one.labels if name in _DIMENSIONS}
        groups.setdefault(tuple((of_loader | dimensions).items()), []).append(one)
    for named, found in groups.items():
        for first in range(0, len(found), _MOST_METRICS):
            yield _document(snapshot.at, dict(named), found[first : first + _MOST_METRICS])


def _ascii(value: str) -> str:
    """A value that a dimension may have: _ascii("read → filter") == "read -> filter"."""
    return "".join(one if " " <= one <= "~" else "_" for one in value.replace("→", "->")).strip().lstrip(":") or "-"


def _document(at: float, dimensions: dict[str, str], readings: list[FigureRead]) -> dict[str, Any]:
    names = [one.figure.full_name.removesuffix("_total") for one in readings]
    metrics = [{"Name": name, "Unit": _UNITS[one.figure.unit]} for name, one in zip(names, readings, strict=True)]
    directive = {"Namespace": _NAMESPACE, "Dimensions": [[*dimensions]], "Metrics": metrics}
    values = {name: one.value for name, one in zip(names, readings, strict=True)}
    return {"_aws": {"Timestamp": int(at * 1000), "CloudWatchMetrics": [directive]}, **dimensions, **values}


def open_emf(target: str) -> Exporter:
    """A file to which lines are added, or "-"."""
    path = local_path("emf", target, "metrics.log")
    return EmfLines(path)
