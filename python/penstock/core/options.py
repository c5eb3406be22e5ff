"""The arguments of `penstock.read`: columns, checks, limits, and the options of a format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from penstock.core.byte_ranges import Locate, Progress
from penstock.core.errors import PlanError
from penstock.core.limits import DEFAULT_LIMITS, Limits
from penstock.core.quoted import quoted
from penstock.core.spec import Field


@dataclass(frozen=True, kw_only=True)
class Column:
    """How one feature of a record becomes a column. What is None is inferred from the first records.

    feature: the name in the file. dtype, shape: as in `Field`; shape (None,) makes it ragged. default: the value for a record
    that lacks the feature; without a default such a record is an error.
    """

    feature: str
    dtype: str | None = None
    shape: tuple[int | None, ...] | None = None
    default: float | int | bytes | str | None = None

    def __post_init__(self) -> None:
        axes = self.shape if isinstance(self.shape, (tuple, list)) else () if self.shape is None else (self.shape, "")
        if not all(axis is None or isinstance(axis, (int, np.integer)) for axis in axes):
            raise PlanError(
                f"Column: shape={quoted(self.shape)}; write a tuple: () for one value, (3,) for three, (None,) for any"
            )

    def field(self, inferred: Field) -> Field:
        """The column's field, where the data would give `inferred`."""
        return Field(self.dtype or inferred.dtype, inferred.shape if self.shape is None else tuple(self.shape))


@dataclass(frozen=True, kw_only=True)
class Options:
    """The arguments of `ps.read`, passed unchanged to the format.

    columns: new name -> feature or `Column`; None takes every feature under its own name. own: the format's own options
    (see `Format.options`), as the user wrote them. locate: finds files that a file names, for formats whose samples are in
    other files; such a source has its own `read_ranges`.
    """

    columns: Mapping[str, str | Column] | Sequence[str] | None = None
    verify: bool = True
    limits: Limits = field(default=DEFAULT_LIMITS)
    progress: Progress | None = None
    own: Mapping[str, Any] = field(default_factory=dict)
    locate: Locate | None = None
