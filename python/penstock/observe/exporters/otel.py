"""observe="otel": instruments of OpenTelemetry, which the meter provider of the process reads and sends. The one importer of opentelemetry."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from penstock.core.errors import PlanError
from penstock.core.installing import pip_install
from penstock.core.kernels import native_version
from penstock.core.messages import quoted
from penstock.observe.events import Event
from penstock.observe.exporters.figures import FIGURES, Figure, Labels
from penstock.observe.exporters.protocol import Exporter
from penstock.observe.exporters.readings import FigureRead
from penstock.observe.exporters.shared import Shared, SharedThing, SharingExporter
from penstock.observe.snapshot import Snapshot

try:
    from opentelemetry import metrics
    from opentelemetry.metrics import CallbackOptions, Observation
except ImportError as error:
    raise PlanError(
        f"observe='otel': opentelemetry-api is missing; install it: {pip_install('opentelemetry-api', 'opentelemetry-sdk')}"
    ) from error

#: Units as UCUM writes them.
_UNITS = {"seconds": "s", "bytes": "By", "ratio": "1", "watts": "W", "": "1"}


class Instruments(SharedThing):
    """The instruments of this process, made once: OpenTelemetry has no way to remove one. They tell the newest figures of each loader.

    Of a loader that was closed counters stay as they were, for the last time that they are read, and the next loader of its number adds to them.
    """

    def __init__(self) -> None:
        self._newest: dict[int, tuple[int, list[FigureRead]]] = {}
        self._before: dict[int, dict[tuple[str, Labels], float]] = {}
        self._lock = threading.Lock()
        meter = metrics.get_meter("penstock", native_version)
        for figure in FIGURES:
            make = meter.create_observable_counter if figure.kind == "counter" else meter.create_observable_gauge
            name = f"penstock.{figure.full_name.removesuffix('_total')}"
            make(name, callbacks=[self._callback(figure)], unit=_UNITS[figure.unit], description=figure.about)

    def _callback(self, figure: Figure) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observe(_: CallbackOptions) -> Iterable[Observation]:
            with self._lock:
                newest = list(self._newest.items())
            for number, (rank, found) in newest:
                for one in found:
                    if one.figure is figure:
                        yield Observation(one.value, {"loader": number, "rank": rank, **dict(one.labels)})

        return observe

    def put(self, number: int, rank: int, readings: list[FigureRead]) -> None:
        """Replaces a loader's figures."""
        with self._lock:
            before = self._before.get(number, {})
            told = [one._replace(value=one.value + before.get((one.figure.name, one.labels), 0)) for one in readings]
            self._newest[number] = rank, told

    def left(self, number: int) -> None:
        """Forgets a loader, but for what it has counted."""
        with self._lock:
            rank, readings = self._newest.get(number, (0, []))
            counted = [one for one in readings if one.figure.kind == "counter"]
            self._newest[number] = rank, counted
            self._before[number] = {(one.figure.name, one.labels): one.value for one in counted}


_made: list[Instruments] = []
_LOADERS = Shared[Instruments]()


class OpenTelemetry(SharingExporter[Instruments]):
    """Figures among the instruments of the process."""

    def write(self, snapshot: Snapshot, events: list[Event]) -> None:
        """Puts the newest figures there."""
        place = self.place
        place.held.put(place.number, snapshot.loader.rank, place.readings.read(snapshot))


def _instruments() -> Instruments:
    if not _made:
        _made.append(Instruments())
    return _made[0]


def open_otel(target: str) -> Exporter:
    """Instruments of the global meter provider."""
    if target:
        raise PlanError(
            f"observe={quoted(f'otel:{target}')}: it takes no target; write 'otel', and give the address to the exporter of your meter provider, "
            "or as OTEL_EXPORTER_OTLP_ENDPOINT"
        )
    return OpenTelemetry(_LOADERS, "", _instruments)
