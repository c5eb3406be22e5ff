"""Ops around ops: `Compose`, `RandomApply`, `RandomChoice` and `RandomOrder`, as in torchvision v2."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

from penstock.core.columns.spec import Spec
from penstock.core.errors import PlanError
from penstock.core.messages import quoted
from penstock.transform.family import Chains, path_number
from penstock.transform.image.op import Chain, ImageOp, check, check_probability, set_fields

#: Ops around ops around ops: recipes have three at most.
_MOST_NESTED = 32

#: What ops that keep the pixels' kind may change of a chain.
_OF_OPS: dict[str, Any] = {"geometry": (), "by_size": (), "number": 0, "fixes_size": False, "is_erased": False}


@dataclass(frozen=True)
class NestedOp(ImageOp):
    """Ops around others. Each of these draws by its path: its place in this op, this op's in the one around it, … An op more, elsewhere, changes none of them."""

    drawn_by: ClassVar[tuple[str, ...]] = ("inside",)
    always: ClassVar[bool] = False
    chooses: ClassVar[bool] = False
    inside: ClassVar[tuple[str, ...]] = ()

    ops: Sequence[ImageOp]

    def settle(self) -> None:
        """See `ImageOp`."""
        ops = tuple(self.ops) if isinstance(self.ops, (list, tuple)) else (self.ops,)
        depth = 1 + max((getattr(op, "depth", 0) for op in ops), default=0)
        check(self, depth <= _MOST_NESTED, f"ops that are nested {_MOST_NESTED} deep at most; these are {depth}")
        on_batch = self.chooses and depth == 1 and all(getattr(op, "on_batch", False) for op in ops)
        are_right = bool(ops) and all(isinstance(op, ImageOp) and op.on_batch == on_batch for op in ops)
        check(self, are_right, "a list of image ops")
        set_fields(
            self,
            ops=ops,
            depth=depth,
            on_batch=on_batch,
            is_random=not self.always or any(op.is_random for op in ops),
            is_geometric=any(op.is_geometric for op in ops),
            moves_pixels=any(op.moves_pixels or (op.is_geometric and not self.always) for op in ops),
            inside=_inside(ops),
            draws_by_size=any(op.draws_by_size for op in ops),
            says_where=all(op.says_where for op in ops),
            asks_for_boxes=any(op.asks_for_boxes for op in ops),
        )

    def beside(self, name: str, chains: Chains) -> None:
        """See `Op`."""
        for op in self.ops:
            op.beside(name, chains)

    def __repr__(self) -> str:
        others = "".join(f", {name}={value!r}" for name, value in self._own().items() if value is not None)
        return f"{type(self).__name__}([{', '.join(map(repr, self.ops))}]{others})"

    def _own(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name != "ops"}

    def extend(self, chain: Chain) -> Chain:
        """The chain with this op at its end; PlanError for an op inside that is no work on bytes of pixels."""
        inner = replace(chain, geometry=(), by_size=())
        for place, op in enumerate(self.ops):
            before = inner
            inner = op.extend(replace(inner, number=path_number(chain.number, place)))
            if replace(inner, **_OF_OPS) != replace(before, **_OF_OPS):
                raise PlanError(
                    f"{type(self).__name__}: {quoted(op)} inside of it changes what pixels are, which must be the same for all images; put it behind"
                )
        described = {"op": type(self).__name__, **self._own(), "ops": list(inner.geometry)}
        by_size = (*chain.by_size, len(chain.geometry)) if inner.by_size else chain.by_size
        fixes_size = inner.fixes_size if self.always else chain.fixes_size
        return replace(
            chain,
            geometry=(*chain.geometry, (chain.number, described)),
            by_size=by_size,
            fixes_size=fixes_size,
            is_erased=inner.is_erased,
        )


@dataclass(frozen=True, repr=False)
class Compose(NestedOp):
    """Ops one after another, as one: for lists inside `RandomChoice` and the like.

    Args:
        ops: image ops.

    Raises:
        PlanError: for what is no list of image ops.

    Example:
        I = ps.image
        soft = I.Compose([I.Resize(72), I.CenterCrop(64)])
        ps.read("photos").transform(image=[I.Decode(), I.RandomChoice([soft, I.RandomResizedCrop(64)]), I.CenterCrop(64)])
    """

    always = True


@dataclass(frozen=True, repr=False)
class RandomApply(NestedOp):
    """All ops inside with a probability, or none of them.

    Args:
        ops: image ops, applied one after another.
        p: the probability. Default: 0.5.

    Raises:
        PlanError: for what is no list of image ops, or no probability.

    Example:
        I = ps.image
        ps.read("photos").transform(image=[I.Decode(), I.Resize((64, 64)), I.RandomApply([I.RandomGrayscale(p=0.5), I.RandomInvert()], p=0.3)])
    """

    drawn_by = ("p", "inside")

    p: float = 0.5

    def settle(self) -> None:
        """See `ImageOp`."""
        super().settle()
        check_probability(self, self.p)


@dataclass(frozen=True, repr=False)
class RandomChoice(NestedOp):
    """One of the ops inside. Behind `batch` these are `MixUp` and `CutMix`, and each step takes one, the same on all ranks.

    Args:
        ops: image ops; or ops on batches, with the same num_classes, labels, columns and among.
        p: of each op, its share of the probability, in any unit. Default: all alike.

    Raises:
        PlanError: for what is no list of image ops, or other than a number from 0 on for each of them, and for ops on batches that differ in other than what they draw.

    Example:
        I = ps.image
        either = I.RandomChoice([I.MixUp(0.2, num_classes=1000), I.CutMix(num_classes=1000)])  # ps.read("photos").….batch(256).transform(either)
        ps.read("photos").transform(image=[I.Decode(), I.Resize((64, 64)), I.RandomChoice([I.RandomGrayscale(p=1), I.RandomInvert(p=1)], p=[0.8, 0.2])])
    """

    chooses = True
    drawn_by = ("p", "inside")

    p: Sequence[float] | None = None

    def settle(self) -> None:
        """See `ImageOp`."""
        super().settle()
        shares = tuple(float(p) for p in (self.p if self.p is not None else [1.0] * len(self.ops)))
        are_shares = len(shares) == len(self.ops) and all(0 <= p < math.inf for p in shares) and sum(shares) > 0
        check(self, are_shares, f"p=, a number from 0 on for each of the {len(self.ops)} ops")
        set_fields(self, p=shares)
        if self.on_batch:
            mixes: Sequence[Any] = self.ops
            are_alike = len({op.shared for op in mixes}) == 1
            check(self, are_alike, "ops on batches the same num_classes=, labels=, columns= and among=")
            set_fields(self, among=mixes[0].among)

    def output(self, name: str, given: Spec) -> Spec:
        """See `Op`."""
        return self.ops[0].output(name, given) if self.on_batch else given

    def mixed_on_device(self, names: Sequence[str]) -> tuple[str, ...] | None:
        """See `Op`."""
        return self.ops[0].mixed_on_device(names)


@dataclass(frozen=True, repr=False)
class RandomOrder(NestedOp):
    """All ops inside, in a random order.

    Args:
        ops: image ops.

    Raises:
        PlanError: for what is no list of image ops.

    Example:
        I = ps.image
        ps.read("photos").transform(image=[I.Decode(), I.RandomOrder([I.Resize((64, 64)), I.RandomHorizontalFlip()])])
    """

    drawn_by = ("count", "inside")

    @property
    def count(self) -> int:
        """How many ops there are: their order is drawn among so many."""
        return len(self.ops)


def _inside(ops: Sequence[Any]) -> tuple[str, ...]:
    """The ops that move pixels, with their places and what decides their draws: columns that draw together have the same ones at the same places.

    _inside([RandomInvert(), RandomHorizontalFlip()]) == ("1: RandomHorizontalFlip(p=0.5)",)
    """
    found = list[str]()
    for place, op in enumerate(ops):
        if op.is_geometric:
            drawn = ", ".join(f"{name}={_told(getattr(op, name), name)}" for name in op.drawn_by)
            found.append(f"{place}: {type(op).__name__}({drawn})")
    return tuple(found)


def _told(value: Any, name: str) -> str:
    """A field in words; what is inside is said as it is, since quotes in quotes double with every level."""
    return f"[{'; '.join(value)}]" if name == "inside" else repr(value)


def labelled(ops: Sequence[Any], numbers: Sequence[int], around: str = "") -> dict[int, str]:
    """Names for ops, by the numbers by which they draw: their places and classes, from the outside in.

    labelled([RandomApply([RandomInvert()])], [0]) == {0: "0 RandomApply", path_number(0, 0): "0 RandomApply / 0 RandomInvert"}
    """
    found = dict[int, str]()
    for place, (op, number) in enumerate(zip(ops, numbers, strict=True)):
        name = f"{around}{place} {type(op).__name__}"
        found.setdefault(number, name)  # an op that a cache adds has no number of its own, and draws nothing
        if isinstance(op, NestedOp):
            inner = [path_number(number, inside) for inside in range(len(op.ops))]
            found |= labelled(op.ops, inner, f"{name} / ")
    return found
