"""How rows of tokens are packed to sequences of one length."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from penstock.core.arguments import hold_as_int, is_one_of
from penstock.core.columns.spec import Field, Spec
from penstock.core.errors import PlanError
from penstock.core.messages import quoted
from penstock.core.verbs.padding import PaddingValue, check_length, check_names, check_values, is_ragged, value_bytes

#: What packing adds to the token columns.
SEGMENT_IDS, POSITION_IDS, LOSS_MASK = "segment_ids", "position_ids", "loss_mask"
ADDED = (SEGMENT_IDS, POSITION_IDS, LOSS_MASK)


@dataclass(frozen=True, kw_only=True)
class Packing:
    """Rows of tokens to sequences of `length` tokens: Packing(columns=("tokens",), length=2048).

    columns: of tokens, equally long in every row; they are packed alike, and other columns are left out.
    strategy: "best_fit" puts whole rows together, each group of `window` neighbouring rows for itself; "concat" joins rows and cuts them
    every `length` tokens, so that nothing is padded and documents go on in the next sequence.
    over_long: rows of more than `length` tokens are split, truncated, or refused by an error. `concat` cuts rows anyway.
    padding_value: what fills the rest of a sequence, of all columns or of each.
    """

    columns: tuple[str, ...]
    length: int
    strategy: Literal["best_fit", "concat"] = "best_fit"
    window: int = 1000
    over_long: Literal["split", "truncate", "refuse"] = "split"
    padding_value: PaddingValue = 0

    def __post_init__(self) -> None:
        check_names("pack", self.columns)
        check_length("pack", "length", self.length)
        check_length("pack", "window", self.window)
        hold_as_int(self, "length", "window")
        _check_choice("strategy", self.strategy, ("best_fit", "concat"))
        _check_choice("over_long", self.over_long, ("split", "truncate", "refuse"))
        check_values("pack", self.padding_value, self.columns)
        for name in self.columns:
            if name in ADDED:
                raise PlanError(f"pack: it makes a column {quoted(name)} itself; rename the one that is packed")

    def spec_of(self, spec: Spec) -> dict[str, Field]:
        """What comes out of rows of these columns; PlanError where they cannot be packed."""
        made: dict[str, Field] = {}
        for name in self.columns:
            if name not in spec:
                raise PlanError(f"pack: no column {quoted(name)}; there are {', '.join(spec)}")
            field = spec[name]
            if not is_ragged(field) and (not field.is_fixed or not field.shape):
                raise PlanError(
                    f"pack: column {quoted(name)} is {field}; a column of tokens holds a list of numbers a row"
                )
            value_bytes("pack", name, field, self.padding_value)
            made[name] = Field(field.dtype, (int(self.length), *field.shape[1:]))
        tokens = (int(self.length),)
        return made | {
            SEGMENT_IDS: Field("int32", tokens),
            POSITION_IDS: Field("int32", tokens),
            LOSS_MASK: Field("bool", tokens),
        }


def _check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    if not is_one_of(value, choices):
        raise PlanError(f"pack: {name}={quoted(value)}; choose one of {', '.join(map(repr, choices))}")
