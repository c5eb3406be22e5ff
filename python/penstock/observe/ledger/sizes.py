"""How many steps and rows each epoch has: the same in all by what the plan says, or as records say where epochs end with their data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from penstock.observe.ledger.findings import Finding, Wrong
from penstock.observe.ledger.format import EpochSize
from penstock.observe.ledger.reader import LedgerFile

#: More steps than any epoch has: of one whose end nobody recorded.
_ENDLESS = 1 << 62


class EpochSizes:
    """Of the epochs that some files are of. wrong: where two of these say different things of one."""

    def __init__(self, files: Sequence[LedgerFile]) -> None:
        header, self._has_ends = files[0].header, files[0].header.has_ends
        self._every = EpochSize(epoch=0, steps=header.steps, rows=header.rows, last_rows=header.last_rows)
        self.wrong: list[Finding] = []
        self._found: dict[int, EpochSize] = {}
        if self._has_ends:
            self._every = replace(self._every, steps=_ENDLESS, last_rows=header.batch_size)
            self._collect(files)

    def _collect(self, files: Sequence[LedgerFile]) -> None:
        said = dict[int, str]()
        sizes = ((file, found.size) for file in files for found in file.records)
        for one, size in sizes:
            if size is None:
                continue
            first, name = self._found.setdefault(size.epoch, size), said.setdefault(size.epoch, one.name)
            if first != size:
                words = (
                    f"epoch {size.epoch} has {size.steps:,} steps of {size.rows:,} rows by {one.name}, and {first.steps:,} of {first.rows:,} by {name}: the data, or what a function "
                    f"looks at, was another"
                )
                self.wrong.append(Finding(wrong=Wrong.DIFFERENT_ROWS, epoch=size.epoch, words=words))

    def of(self, epoch: int) -> EpochSize:
        """What an epoch holds; one whose end nobody recorded has more steps than ever come."""
        return self._found.get(epoch, self._every)

    def steps(self, epoch: int) -> int | None:
        """Steps of an epoch; None where nobody recorded its end."""
        steps = self.of(epoch).steps
        return steps if steps < _ENDLESS else None

    def normal(self, position: tuple[int, int]) -> tuple[int, int]:
        """The same position; the end of an epoch is the beginning of the next one."""
        return position if position[1] < self.of(position[0]).steps else (position[0] + 1, 0)

    def between(self, first: tuple[int, int], last: tuple[int, int]) -> int:
        """How many steps one position is before another, as far as epochs between them are known."""
        if first > last:
            return -self.between(last, first)
        known = self.known(first[0], last[0])
        more = sum(size.steps for size in known) if self._has_ends else (last[0] - first[0]) * self._every.steps
        return last[1] - first[1] + more

    def known(self, first: int, last: int) -> list[EpochSize]:
        """What was recorded of the epochs [first, last)."""
        return [size for epoch, size in self._found.items() if first <= epoch < last]
