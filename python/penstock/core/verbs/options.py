"""The arguments of `penstock.read`: columns, checks, limits, and the options of a format."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from penstock.core.arguments import is_one_of, is_whole
from penstock.core.columns.spec import Field
from penstock.core.errors import PlanError
from penstock.core.files.byte_ranges import ByteRanges, Locate, Progress
from penstock.core.files.shards import Shards
from penstock.core.limits import DEFAULT_LIMITS, Limits
from penstock.core.messages import quoted

#: What nulls become.
Nulls: TypeAlias = Literal["error", "nan", "mask", "arrow"]
NULLS: tuple[Nulls, ...] = ("error", "nan", "mask", "arrow")
#: Characters or bytes of a default.
_LONGEST_DEFAULT = 1 << 16


@dataclass(frozen=True, kw_only=True)
class Column:
    """How one feature of a record becomes a column. What is None is inferred from the first records.

    Args:
        feature: the name in the file.
        dtype: a NumPy name ("uint8", "float32", …), "bfloat16", "bytes" or "string".
        shape: of one row: () is one value, (3,) three, (None,) any number.
        default: the value for a record that lacks the feature, and for null.
        nulls: what nulls of this column become, "error", "nan", "mask" or "arrow", as `penstock.read` says it of all columns; the column is then made
            for them even if the data shows none.

    Raises:
        PlanError: for arguments that are none of these, and for both `default` and `nulls`.

    Example:
        label = ps.Column(feature="y", dtype="int32", shape=(), default=-1)  # a record without y gets -1
        rows = ps.read("examples.tfrecord", columns={"features": "x", "label": label})
        rows.spec["label"].dtype == "int32"
    """

    feature: str
    dtype: str | None = None
    shape: tuple[int | None, ...] | None = None
    default: float | int | bytes | str | None = None
    nulls: Nulls | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.feature, str):
            raise PlanError(f"Column: feature={quoted(self.feature)}; pass the name of a column in the data")
        if self.dtype is not None and not isinstance(self.dtype, str):
            raise PlanError(f"Column: dtype={quoted(self.dtype)}; pass the name of a type, for example 'float32'")
        if self.nulls is not None:
            check_nulls("Column", self.nulls)
            if self.default is not None:
                raise PlanError("Column: default= and nulls= both say what becomes of nulls; choose one")
        if isinstance(self.default, (str, bytes)) and len(self.default) > _LONGEST_DEFAULT:
            raise PlanError(
                f"Column: a default of {len(self.default):,} characters, which every row could hold; pass a shorter one"
            )
        axes = self.shape if isinstance(self.shape, (tuple, list)) else () if self.shape is None else (self.shape, "")
        if not all(axis is None or is_whole(axis) for axis in axes):
            raise PlanError(
                f"Column: shape={quoted(self.shape)}; write a tuple: () for one value, (3,) for three, (None,) for any"
            )

    def field(self, inferred: Field) -> Field:
        """The column's field, where the data would give `inferred`."""
        shape = inferred.shape if self.shape is None else tuple(self.shape)
        return Field(self.dtype or inferred.dtype, shape, nullable=inferred.nullable or self.is_nullable)

    @property
    def is_nullable(self) -> bool:
        """Whether the user says that nulls are to be expected."""
        return self.nulls not in (None, "error")


def check_nulls(where: str, nulls: Any) -> None:
    """PlanError for what is no rule about nulls."""
    if not is_one_of(nulls, NULLS):
        raise PlanError(
            f"{where}: nulls={quoted(nulls)}; choose 'error', 'nan' (numbers become floats with NaN), 'mask' (a column '<name>_valid' "
            f"says which are there) or 'arrow' (numbers stay Arrow arrays with nulls)"
        )


def check_columns(columns: Any) -> None:
    """PlanError for what names no columns."""
    is_list = isinstance(columns, Iterable) and not isinstance(columns, (str, bytes))
    asked = columns.values() if isinstance(columns, Mapping) else columns
    named = columns if isinstance(columns, Mapping) else ()
    if columns is not None and not (
        is_list
        and all(isinstance(name, (str, Column)) or name is ... for name in asked)
        and all(isinstance(name, str) or name is ... for name in named)
    ):
        raise PlanError(f"columns={quoted(columns)}: pass a list of names, or a dict of new name to name in the data")


#: What a user passes as `columns`; `...` stands for all others.
Asked: TypeAlias = "Mapping[Any, Any] | Sequence[Any] | None"


@dataclass(frozen=True, kw_only=True)
class Options:
    """The arguments of `ps.read`, passed unchanged to the format.

    columns: new name -> feature or `Column`; None takes every feature under its own name. nulls: what they become. own: the format's own options
    (see `Format.options`), as the user wrote them. locate: finds files that a file names, for formats whose samples are in
    other files; such a source has its own `read_ranges`. find: lists a file or folder that the user names in `own`, and reads it. are_picked: whether the
    user picked the files (a list, a glob, one file), and did not name a folder.
    """

    columns: Asked = None
    verify: bool = True
    nulls: Nulls = "error"
    limits: Limits = field(default=DEFAULT_LIMITS)
    progress: Progress | None = None
    own: Mapping[str, Any] = field(default_factory=dict)
    locate: Locate | None = None
    find: Callable[[str], tuple[Shards, ByteRanges]] | None = None
    are_picked: bool = False
