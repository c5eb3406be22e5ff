"""The protocol of transforms: what an op says of itself, what a family compiles its chains to, and what such a kernel does with a batch.

    describe   op.needs, op.output, op.is_random, …    which columns go in and come out, and whether something is drawn
    lower      family.compile(chains, site)            one kernel for chains that share columns
    run        kernel(columns, keys, workspace)        columns in, columns out: fixed shapes, ragged or text

A family is a row of `FAMILIES`; nothing else knows it by name. See DESIGN.md, and `transform/text` for a small one.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, ClassVar, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from penstock.core import kernels
from penstock.core.columns.op_step import OpStep
from penstock.core.columns.pixel_ops import PixelOps
from penstock.core.columns.row_sources import RowSources
from penstock.core.columns.spec import Bytes, Column, Columns, Field, Ids, Spec
from penstock.core.draw_keys import DrawKeys
from penstock.core.errors import PlanError, RowError
from penstock.core.limits import DEFAULT_LIMITS, Limits
from penstock.core.messages import quoted

#: The ops of several columns, each column's in flow order.
Chains: TypeAlias = Mapping[str, tuple[Any, ...]]

#: Each family's module, which has it as `FAMILY`.
FAMILIES = {
    "image": "penstock.transform.image.family",
    "table": "penstock.transform.table.family",
    "text": "penstock.transform.text.family",
}


class Op:
    """An op: a frozen dataclass of plain values, which a plan writes as JSON.

    family: its row in `FAMILIES`. is_random: whether it draws. drawn_by: the fields that decide what. draws_apart: whether a chain that begins with it
    draws for itself, whatever `transform(draws=…)` says. on_pixels: whether it works on images; moves_pixels: whether a mask must then follow. on_batch: whether it works on whole batches, `batch(…).transform(op)`, and not on one column.
    goes_along: whether a chain that begins with it goes where the chain of another column does, so that transforms one after another are not joined.
    in_one_kernel: whether one kernel does all chains of a transform that begin with such an op.
    """

    family: ClassVar[str]
    is_random: ClassVar[bool] = False
    drawn_by: ClassVar[tuple[str, ...]] = ()
    draws_apart: ClassVar[bool] = False
    on_pixels: ClassVar[bool] = False
    moves_pixels: ClassVar[bool] = False
    on_batch: ClassVar[bool] = False
    goes_along: ClassVar[bool] = False
    in_one_kernel: ClassVar[bool] = False

    def needs(self, name: str) -> tuple[str, ...]:
        """The columns that it works on, at the beginning of the chain of column `name`."""
        return (name,)

    def together(self, name: str) -> tuple[str, ...]:
        """The columns that are made together with `name`, at the beginning of whose chain it stands: who wants one of them gets all."""
        return (name,)

    def makes(self, name: str) -> tuple[str, ...]:
        """The columns that it makes or changes, in the chain of column `name`."""
        return (name,)

    def beside(self, name: str, chains: Chains) -> None:
        """PlanError where the chains of its transform are not what it needs, in the chain of column `name`."""

    def output(self, name: str, given: Spec) -> Spec:
        """The columns that it makes of these, as far as that is known without looking at data. PlanError for what it cannot work on."""
        return given

    def mixed_on_device(self, names: Sequence[str]) -> tuple[str, ...] | None:
        """Of one on whole batches, which of these columns of float32 images a device mixes, behind the ends of their chains; None where the host needs the images."""
        return None


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """What an op learnt of rows before: a plain JSON value, and the digest of what it was fitted on. It is a field of the op, so that plans and states tell it apart.

    Fitted.of({"mean": 0.5}, "1a2b").value == {"mean": 0.5}
    """

    text: str
    digest: str

    @classmethod
    def of(cls, value: Any, digest: str) -> Fitted:
        """One of a value; PlanError if that is no JSON."""
        try:
            return cls(text=json.dumps(value, sort_keys=True, allow_nan=False), digest=digest)
        except (TypeError, ValueError) as error:
            raise PlanError(
                f"fitted: {quoted(value)} is no plain JSON value ({error}); keep numbers, text and lists"
            ) from None

    @property
    def value(self) -> Any:
        """The value."""
        return json.loads(self.text)


class FileColumn(NamedTuple):
    """A column whose rows are records of one source as they lie: its manifest's digest, how many samples that has, and the column's name there."""

    digest: str
    samples: int
    name: str


def _in_no_file(column: str) -> None:  # noqa: ARG001  # a default
    return None


@dataclass(frozen=True, kw_only=True)
class Site:
    """Where chains stand in a plan: what a family may know when it compiles them.

    fields: the columns that they work on. numbers: of each chain's ops, by which random ones draw; a place in the chain where they are not given. indices: columns whose numbers are
    names of something, so that none can be averaged. channels_first: columns of pixels whose channels come first. first: what a function says of the first row of a column that it can
    work on, KeyError for a column that no source has; None where nothing is to be read. in_file: where a column lies, None where another stage made it. sources: those of the plan's
    rows; None where that does not matter.
    """

    fields: Spec
    limits: Limits = DEFAULT_LIMITS
    numbers: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    indices: frozenset[str] = frozenset()
    channels_first: frozenset[str] = frozenset()
    first: Callable[[str, Callable[[Any], Any]], Any] | None = None
    in_file: Callable[[str], FileColumn | None] = _in_no_file
    sources: RowSources | None = None


def _no_note(row: int, text: str) -> None:
    """Nobody listens."""


@dataclass(frozen=True, kw_only=True)
class Workspace:
    """What a kernel works with. allocate: memory for a fixed column, by name, field and rows. bad: gets the errors of all bad rows, and the others are made; None where the first one is raised.

    samples: the rows' numbers in their source, None where they are in none. ids: their row ids, None on whole batches. note: warns about a row. together: so many neighbouring rows of a batch are on one rank,
    whatever the number of ranks; 1 where a step is not full.
    """

    allocate: Callable[[str, Field, int], Any]
    threads: int = 1
    bad: Callable[[Sequence[RowError]], None] | None = None
    samples: Ids | None = None
    ids: Ids | None = None
    note: Callable[[int, str], None] = _no_note
    together: int = 1


class DeviceKernel(Protocol):
    """The end of a chain on a device. pixels: what becomes of each byte. words: its ops, for people."""

    @property
    def pixels(self) -> PixelOps: ...  # noqa: D102

    @property
    def words(self) -> str: ...  # noqa: D102

    def flags(self, key: int, rows: Ids) -> Bytes | None:
        """What each row drew, as bits; None where nothing is drawn."""

    def patches(self, key: int, rows: Ids, shape: tuple[int, ...]) -> npt.NDArray[np.int32] | None:
        """Which parts of each row's image are erased, of shape (rows, erasings, 4); None where nothing is. shape: of the batch of bytes."""


class DeviceMix(Protocol):
    """An op on whole batches whose images a device mixes."""

    def mixed(self, key: DrawKeys, together: int) -> Mapping[str, npt.NDArray[Any]]:
        """What a step's rows drew, by kind; nothing where they are not mixed. together: see `Workspace`.

        Of each row "partners", the place of the other image (int32), and either "weights", what it keeps of itself and takes of the other (two of float32), or "cuts", the part that is
        the other's (top, left, height, width; int32).
        """


class Kernel:
    """Chains, compiled. columns: those that it works on. fields: those that it makes; a column that it makes nothing of stays."""

    columns: tuple[str, ...]
    fields: Spec

    def __call__(self, columns: Columns, keys: Mapping[str, DrawKeys], work: Workspace) -> Columns:
        """The columns that it makes: arrays from `work.allocate` for fixed fields, else Arrow arrays. keys: of each chain.

        What a row draws is a function of its key alone. Raises RowError for a bad row, unless `work.bad` takes it.
        """
        raise NotImplementedError

    def counts(self) -> Counter[str]:
        """What it did so far, by kind, for figures."""
        return Counter()

    def drawn(self, columns: Columns, keys: Mapping[str, DrawKeys], work: Workspace) -> dict[str, Any]:
        """What the chains draw for these rows, by column (`""` for an op on the batch), op and parameter: an array of a number a row, or one number for all of them."""
        return {}

    def steps(self, columns: Columns, keys: Mapping[str, DrawKeys], work: Workspace) -> dict[str, list[list[OpStep]]]:
        """What each op of its chains did to these rows, by column: for each row the ops in order. Nothing of chains that make no pictures."""
        return {}

    def on_device(self, columns: frozenset[str]) -> tuple[Kernel | None, Mapping[str, DeviceKernel]]:
        """What stays on the host, None for nothing, and what a device does after it, of these columns."""
        return self, {}

    def mixing_on_device(self, columns: frozenset[str]) -> DeviceMix:
        """Of an op on whole batches: leaves these columns to a device (see `Op.mixed_on_device`), and does the others itself."""
        raise NotImplementedError


class Drawing(NamedTuple):
    """A chain of a batch: its column's name, its kernel, the columns that this gets, and the keys by which it draws."""

    name: str
    kernel: Kernel
    columns: Columns
    keys: DrawKeys


class Family:
    """What ops of one kind become. One that makes no pixels says no more than `compile`."""

    def compile(self, chains: Chains, site: Site) -> Kernel:
        """The kernel of chains that share columns; PlanError, with op, column and what it got, if it cannot work."""
        raise NotImplementedError

    def indices(self, chains: Chains, site: Site) -> frozenset[str]:
        """The columns among these that hold indices afterwards; PlanError where an op would average such."""
        return frozenset()

    def device_ends(self, chains: Chains, site: Site, columns: frozenset[str]) -> Mapping[str, DeviceKernel]:
        """What `Kernel.on_device` leaves to a device of these columns, known without compiling."""
        return {}

    def layout(self, ops: Sequence[Any]) -> str:
        """The order of axes that a chain leaves, "" where it has no axes to order."""
        return ""

    def at_cache(
        self,
        before: tuple[Any, ...],
        after: tuple[Any, ...],
        *,
        goes_on: bool,
    ) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Two chains with a cache between, which keeps what suits the second. goes_on: whether both would be one if there were no cache."""
        return before, after

    def unequal(self, drawings: Sequence[Drawing]) -> list[RowError]:
        """An error for each row of which chains that draw the same numbers cannot do the same."""
        return []


def family_of(ops: Sequence[Any]) -> Family:
    """The family of a chain; PlanError for what is no op."""
    for op in ops:
        if not isinstance(op, Op):
            raise PlanError(
                f"{quoted(op)}: not an op; use those of penstock.image, penstock.text or penstock.table, or map()"
            )
    found: Family = import_module(FAMILIES[ops[0].family if ops else "image"]).FAMILY
    return found


def needs_of(name: str, ops: Sequence[Any]) -> tuple[str, ...]:
    """The columns that the chain of a column works on."""
    return ops[0].needs(name) if ops and isinstance(ops[0], Op) else (name,)


def groups_of(chains: Chains) -> list[dict[str, tuple[Any, ...]]]:
    """The chains that one kernel does together: those that work on the column of another one, with that one. Others are alone, in the order in which they are written."""
    leader = {name: name for name in chains}
    joined = [name for name, ops in chains.items() if ops and getattr(ops[0], "in_one_kernel", False)]
    leader |= dict.fromkeys(joined, joined[0] if joined else "")
    for name, ops in chains.items():
        for needed in needs_of(name, ops):
            if needed in leader:
                old, new = leader[name], leader[needed]
                leader = {each: new if lead == old else lead for each, lead in leader.items()}
    return [{name: chains[name] for name in chains if leader[name] == lead} for lead in dict.fromkeys(leader.values())]


def path_number(*path: int) -> int:
    """The number by which an op draws, from its path: its place in the chain, and in each op around it. An op more, elsewhere, changes none.

    path_number(3) == 3
    """
    first, *inner = path
    return first if not inner else kernels.mix([first, *inner]) | 1 << 63


def one_column(name: str, columns: Mapping[str, Column]) -> Column:
    """A kernel's column; PlanError if it is not there."""
    if name not in columns:
        raise PlanError(f"transform: no column {quoted(name)}; the function before it returned {', '.join(columns)}")
    return columns[name]
