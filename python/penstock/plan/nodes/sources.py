"""Where rows come from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.core.byte_ranges import ByteRanges
from penstock.core.limits import DEFAULT_LIMITS, Limits
from penstock.core.spec import Spec
from penstock.plan.node import Known, Node
from penstock.source.protocol import AnySource


@dataclass(frozen=True, eq=False, kw_only=True)
class Opened:
    """An opened source, how its bytes are read, and the storage that they lie in. asked: which columns were asked for, and as what."""

    source: AnySource
    read_ranges: ByteRanges
    storage: Any = None
    asked: str = ""


@dataclass(frozen=True, kw_only=True)
class Read(Node):
    """Where the samples come from. limits: what their bytes may ask for, which changes no sample."""

    opened: Opened
    where: str
    format: str
    columns: tuple[tuple[str, str], ...]
    limits: Limits = field(default=DEFAULT_LIMITS, metadata={"affects_result": False})
    verb: str = "read"

    may_fail = True

    def rows_of(self, below: Sequence[int]) -> int:
        """Those of the source."""
        return self.opened.source.manifest.samples

    def spec_of_inputs(self, below: Sequence[Spec]) -> Spec:
        """The fields of the source."""
        return dict(self.opened.source.spec)

    def known_of(self, below: Sequence[Known]) -> Known:
        """The columns of the source."""
        return {name: str(field) for name, field in self.opened.source.spec.items()}

    def said(self) -> Iterator[tuple[str, str]]:
        """What is read of which format; not where it lies."""
        yield "format", self.format
        yield "columns", ", ".join(f"{new}: {old}" if new != old else new for new, old in self.columns)
