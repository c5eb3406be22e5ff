"""What a column is between the ops of a chain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from penstock.core.columns.spec import Field
from penstock.core.errors import PlanError
from penstock.core.messages import quoted

Kind: TypeAlias = Literal["float", "integer", "text", "vector"]


@dataclass(frozen=True, kw_only=True)
class Lane:
    """kind: how it is held on the way: float64, int64, text, or several floats a row. dtype: what comes out if no op follows.

    names: of the numbers of a vector, as ends of a feature's name. codes: how many codes whole numbers are, from 0 on; None where they are no codes, or that is not known yet.
    nullable: whether values may be missing.
    """

    kind: Kind
    dtype: str
    names: tuple[str, ...] = ()
    codes: int | None = None
    nullable: bool = False

    @classmethod
    def of(cls, name: str, field: Field) -> Lane:
        """What the column of a field is at the beginning of its chain; PlanError for one that is no number and no text."""
        inner = field.required
        if inner.shape or inner.dtype == "bytes" or "complex" in inner.dtype:
            raise PlanError(
                f"recipe: column {quoted(name)} is {field}, and ops of tables work on one number or text a row; leave it out: Recipe(…, leave=[{quoted(name)}])"
            )
        if inner.dtype == "string":
            return cls(kind="text", dtype="string", nullable=field.nullable)
        if "float" in inner.dtype:
            return cls(kind="float", dtype="float64" if inner.dtype == "float64" else "float32", nullable=True)
        dtype = "bool" if inner.dtype == "bool" else "int64"
        return cls(kind="integer", dtype=dtype, nullable=field.nullable)

    @classmethod
    def of_any(cls, name: str, field: Field) -> Lane:
        """The same in the midst of a chain, where there are vectors."""
        shape = field.required.shape
        if len(shape) == 1 and shape[0] is not None:
            return cls(kind="vector", dtype=field.dtype, names=tuple(map(str, range(shape[0]))))
        return cls.of(name, field)

    @property
    def width(self) -> int:
        """Numbers a row."""
        return len(self.names) if self.kind == "vector" else 1

    @property
    def field(self) -> Field:
        """The column that comes out if no op follows."""
        if self.kind == "text":
            return Field("string", nullable=self.nullable)
        return Field(self.dtype, (self.width,) if self.kind == "vector" else ())


def floats(dtype: str = "float32") -> Lane:
    """Numbers that an op made."""
    return Lane(kind="float", dtype=dtype, nullable=True)


def whole(codes: int | None) -> Lane:
    """Codes that an op made."""
    return Lane(kind="integer", dtype="int64", codes=codes)
