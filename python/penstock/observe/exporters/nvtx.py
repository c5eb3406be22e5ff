"""observe="nvtx": each stage's work as a range in NVIDIA's Nsight Systems, in the thread that does it. The one importer of nvtx.

Ranges cost next to nothing where no tool listens.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any

from penstock.core.errors import PlanError
from penstock.core.installing import pip_install
from penstock.core.messages import quoted
from penstock.observe.events import Event
from penstock.observe.exporters.protocol import Exporter
from penstock.observe.exporters.shared import Shared, SharedThing, SharingExporter
from penstock.observe.snapshot import Snapshot
from penstock.observe.torch_profiler import OTHER_RANGES

try:
    import nvtx
except ImportError as error:
    raise PlanError(f"observe='nvtx': nvtx is missing; install it: {pip_install('nvtx')}") from error


class NvtxRange:
    """A range of this thread while it is entered."""

    __slots__ = ("_attributes", "_domain")

    def __init__(self, domain: Any, attributes: Any) -> None:
        self._domain, self._attributes = domain, attributes

    def __enter__(self) -> None:
        self._domain.push_range(self._attributes)

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._domain.pop_range()


class NvtxRanges(SharedThing):
    """Opens ranges of the domain "penstock" as long as a loader asks for them."""

    def __init__(self) -> None:
        self._domain = nvtx.get_domain("penstock")
        self._attributes: dict[str, Any] = {}
        OTHER_RANGES.append(self._range)

    def _range(self, name: str) -> NvtxRange:
        attributes = self._attributes.get(name)
        if attributes is None:
            attributes = self._attributes[name] = self._domain.get_event_attributes(message=name, category="penstock")
        return NvtxRange(self._domain, attributes)

    def end(self) -> None:
        """Opens no more."""
        OTHER_RANGES.remove(self._range)


_RANGES = Shared[NvtxRanges]()


class Nvtx(SharingExporter[NvtxRanges]):
    """Keeps ranges open while a loader works."""

    def write(self, snapshot: Snapshot, events: list[Event]) -> None:
        """Nothing: a tool hears of ranges as they begin and end."""


def open_nvtx(target: str) -> Exporter:
    """Ranges, wherever a tool listens."""
    if target:
        raise PlanError(
            f"observe={quoted(f'nvtx:{target}')}: it takes no target; write 'nvtx', and run under nsys profile"
        )
    return Nvtx(_RANGES, "", NvtxRanges)
