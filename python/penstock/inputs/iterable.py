"""Iterables and generator functions: drawn once into the cache and then like any dataset, or drawn while the training runs."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from typing import Any

from penstock.core.columns.rows import new_rows
from penstock.core.columns.spec import Spec
from penstock.core.errors import DataError, PlanError, RowError, SourceError
from penstock.core.files.byte_ranges import Progress
from penstock.core.functions.code_key import code_key
from penstock.core.functions.random_use import mentions_generators
from penstock.core.limits import DEFAULT_LIMITS, Limits
from penstock.core.verbs.options import Asked
from penstock.core.warnings import warn
from penstock.inputs.forward import Draw, Stream, takes_start
from penstock.inputs.items import Items, learn_items, rows_together
from penstock.inputs.spool import Blocks, Spool, kept_spool, own_spool
from penstock.source.manifest import StatedManifest, digest_of
from penstock.source.protocol import Resuming

#: Bytes of rows that make a block of a spool, how many of the first rows tell how large they are, and rows at most.
_BLOCK_BYTES, _LOOK_AT, _BLOCK_ROWS = 1 << 20, 64, 1 << 14

_NO_ITEM = object()


@dataclass(frozen=True, kw_only=True)
class Making:
    """How items are made, and what they are called. `make`: a function, or an iterable."""

    make: Any
    arguments: Mapping[str, Any] = field(default_factory=dict)
    columns: Asked = None
    samples: int | None = None
    name: str | None = None
    version: str = ""

    @property
    def where(self) -> str:
        """What messages call it."""
        return f"from_iterable({self._made_by.__qualname__})"

    @property
    def _made_by(self) -> Any:
        """The function itself, or the type of an iterable."""
        what = getattr(self.make, "func", self.make)  # of a partial
        return what if hasattr(what, "__qualname__") and hasattr(what, "__module__") else type(what)

    @property
    def calls(self) -> bool:
        """Whether `make` is a function that gives an iterable."""
        return callable(self.make) and not isinstance(self.make, Iterable)

    @property
    def skips(self) -> bool:
        """Whether the function can begin at any item: it has a parameter `start`, which the user did not fill."""
        return self.calls and "start" not in self.arguments and takes_start(self.make)

    def begin(self, start: int = 0) -> Iterator[Any]:
        """A new iterator, at item `start` if it skips."""
        more = {"start": start} if self.skips else {}
        made = self.make(**self.arguments, **more) if self.calls else self.make
        if not isinstance(made, Iterable):
            raise PlanError(
                f"{self.where}: it is no iterable, nor a function that gives one, but {type(made).__qualname__}"
            )
        return iter(made)

    @property
    def called(self) -> str:
        """What a user calls the data, or else where its function is; with the arguments, as far as they are plain."""
        parts = [self.name or f"{self._made_by.__module__}.{self._made_by.__qualname__}", self.version]
        for name, value in sorted(self.arguments.items()):
            with suppress(PlanError):
                parts.append(code_key(_nothing, {name: value}))
        return " ".join(parts)

    @property
    def key(self) -> str | None:
        """What tells this data from other; None if nothing does."""
        if self.name is None and not self.calls:
            return None
        code = "" if self.name is not None else code_key(self.make, self.arguments)
        return digest_of(f"{self.called} {code} {self.columns!r}")


def _nothing() -> None:
    """Stands for code where a name is given."""


def from_iterable(
    making: Making, *, spool: bool = True, limits: Limits = DEFAULT_LIMITS, progress: Progress | None = None
) -> Spool | Stream:
    """Opens an iterable; PlanError for what is none, DataError where it has not as many items as it should."""
    if making.samples is not None and making.samples < 1:
        raise PlanError(f"{making.where}: samples={making.samples}; there must be at least one")
    return _spooled(making, limits, progress) if spool else _streamed(making)


# Cached


def _spooled(making: Making, limits: Limits, progress: Progress | None) -> Spool:
    key = making.key
    if key is None:
        opened = own_spool(*_draw(making), limits, progress)
    else:
        opened = kept_spool(key, partial(_draw, making), limits, progress, making.samples or 0)
    if making.samples not in (None, opened.manifest.samples):
        raise PlanError(
            f"{making.where}: {opened.manifest.samples:,} items came, and samples={making.samples} was said; leave it away"
        )
    return opened


def _draw(making: Making) -> tuple[Spec, int, Blocks]:
    """The columns, the rows of a block, and the blocks, which are drawn as they are asked for."""
    drawn = _noted(making.begin())
    start = list(islice(drawn, _LOOK_AT))
    if not start:
        raise SourceError(f"{making.where}: it is empty")
    items = learn_items(start[0], making.columns, making.where)
    size = sum(column.nbytes for column in _stack(items, start, 0, making).values())
    block_rows = max(1, min(_BLOCK_ROWS, _BLOCK_BYTES * len(start) // max(1, size)))
    return items.spec, block_rows, _blocks(items, start, drawn, block_rows, making)


def _blocks(items: Items, start: list[Any], drawn: Iterator[Any], block_rows: int, making: Making) -> Blocks:
    done = 0
    while rows := start[:block_rows] + list(islice(drawn, max(0, block_rows - len(start)))):
        start = start[block_rows:]
        yield _stack(items, rows, done, making)
        done += len(rows)


def _stack(items: Items, rows: list[Any], first: int, making: Making) -> dict[str, Any]:
    try:
        return items.stack(rows, new_rows)
    except RowError as error:
        raise DataError(f"{making.where}, sample {first + error.row:,}: {error.found}; {error.do}") from None


def _noted(items: Iterator[Any]) -> Iterator[Any]:
    """The items; an exception gets a note with the number of the item that did not come."""
    number = 0
    try:
        for item in items:
            yield item
            number += 1
    except Exception as error:
        error.add_note(f"penstock: sample {number} of an iterable")
        raise


# Drawn while the training runs


def _identity(making: Making) -> str | None:
    """What tells the rows from others; None of a function that cannot be told from another by its code."""
    try:
        return making.key
    except PlanError:
        return None


def _streamed(making: Making) -> Stream:
    samples = making.samples if making.samples is not None else _length(making)
    if samples == 0:
        raise SourceError(f"{making.where}: it is empty")
    if mentions_generators(making.make):
        warn(
            f"penstock: {making.where} draws from the global generators of random, NumPy or torch while the training runs: what it "
            f"draws does not repeat, and the training loop's random numbers change. Use a generator of its own: "
            f"numpy.random.default_rng(seed)"
        )
    drawn = making.begin()
    began_at = time.perf_counter()
    first = next(drawn, _NO_ITEM)
    took_s = time.perf_counter() - began_at
    if first is _NO_ITEM:
        raise SourceError(f"{making.where}: it is empty")
    items = learn_items(first, making.columns, making.where)
    digest = digest_of(f"stream {making.called} {samples} {items.description}")
    manifest = StatedManifest.of("stream", samples, digest, samples * items.row_bytes)
    again = None if drawn is making.make else _Again(making, drawn)  # an iterator is its own, and there is no other
    draw = Draw(chain([first], drawn), again, skips=making.skips)
    stack = partial(items.stack, allocate=new_rows)
    hint = ", or end it with itertools.islice"
    resuming = Resuming.NEVER if again is None else Resuming.START if making.skips else Resuming.AGAIN
    # An iterator cannot be drawn again after an error, so its steps are made one at a time.
    together = 1 if again is None else rows_together(took_s)
    return Stream(
        manifest,
        items.spec,
        draw,
        stack,
        [first],
        together,
        hint=hint,
        resuming=resuming,
        comes_once=again is None,
        identity=_identity(making),
    )


def _length(making: Making) -> int:
    if not hasattr(making.make, "__len__"):
        raise PlanError(
            f"{making.where}: nobody knows how many items will come; pass samples=…, or let spool=True count and keep them"
        )
    return len(making.make)


@dataclass(frozen=True, eq=False)
class _Again:
    """Makes another iterator than the `first`; None for that where a copy, or another process, has not begun one."""

    making: Making
    first: Iterator[Any] | None

    def __call__(self, start: int) -> Iterator[Any]:
        """A new iterator, at item `start` if it skips."""
        made = self.making.begin(start)
        if made is self.first:
            raise PlanError(
                f"{self.making.where}: it gives the same iterator a second time; make a new one in each call"
            )
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return _Again, (self.making, None)
