"""Another view of an image that is decoded once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from penstock.core.columns.spec import Spec
from penstock.core.errors import PlanError
from penstock.core.messages import quoted
from penstock.transform.family import Chains, path_number
from penstock.transform.image.decode import Decode
from penstock.transform.image.op import Chain, ImageOp, check, set_fields


@dataclass(frozen=True)
class From(ImageOp):
    """Another view of an image, in a column of its own: `ops` begin with the pixels that the chain of `column` decodes.

    The image is decoded once, whole, for all its views. A view draws for itself, and the first one draws as if there were no other; `transform(draws=…)` says nothing about it.

    Args:
        column: the column of the image, with a chain in the same `transform` that begins with `Decode`.
        ops: what becomes of the pixels, as in any chain; without `Decode`.

    Raises:
        PlanError: where the transform has no such chain, or its `Decode` is `fast`, which resizes while it decodes.

    Example: two views for contrastive learning, `batch["image"]` and `batch["view"]`.

        import penstock as ps

        I = ps.image
        ops = [I.RandomResizedCrop(224), I.RandomHorizontalFlip(), I.Normalize(I.IMAGENET)]
        chains = {"image": [I.Decode(), *ops], "view": I.From("image", ops)}  # ps.read("photos").transform(**chains)
    """

    draws_apart = True

    column: str
    ops: Sequence[ImageOp]

    def settle(self) -> None:
        """See `ImageOp`."""
        check(self, isinstance(self.column, str), "the name of the image's column")
        ops = tuple(self.ops) if isinstance(self.ops, (list, tuple)) else (self.ops,)
        are_right = all(isinstance(op, ImageOp) and not isinstance(op, (Decode, From)) for op in ops)
        check(self, are_right, "a list of image ops without Decode, which stands in the image's own chain")
        set_fields(self, ops=ops, is_random=any(op.is_random for op in ops))

    def needs(self, name: str) -> tuple[str, ...]:
        """See `Op`."""
        return (self.column,)

    def output(self, name: str, given: Spec) -> Spec:
        """See `Op`."""
        return {**given, name: given[self.column]} if self.column in given else given

    def extend(self, chain: Chain) -> Chain:
        """PlanError: it begins a chain of its own."""
        raise PlanError(f"From({self.column!r}, …) as op {chain.number}; put it first")

    def beside(self, name: str, chains: Chains) -> None:
        """See `Op`."""
        if chains[name][0] is not self:
            return
        for op in self.ops:
            op.beside(name, chains)
        ops = chains.get(self.column, ())
        if name == self.column or not ops or isinstance(ops[0], From):
            raise PlanError(
                f"transform: {quoted(name)} is another view of {quoted(self.column)}, which has no chain of its own beside it; write both in one transform({self.column}=[Decode(), …], "
                f"{name}=From({self.column!r}, […]))"
            )
        if isinstance(ops[0], Decode) and ops[0].fast:
            raise PlanError(
                f"transform: {quoted(name)} is another view of {quoted(self.column)}, whose Decode(fast=True) resizes while it decodes, so that there are no pixels to share; leave out fast=True"
            )


def flattened(
    ops: Sequence[Any], numbers: Sequence[int], decode: Sequence[Any] = ()
) -> tuple[tuple[Any, ...], tuple[int, ...]]:
    """A chain as it runs, and the numbers by which its ops draw: those of a view behind `decode`, which draws nothing."""
    if not ops or not isinstance(ops[0], From):
        return tuple(ops), tuple(numbers)
    first, *others = numbers or range(len(ops))
    inner = [path_number(first, place) for place in range(len(ops[0].ops))]
    return (*decode, *ops[0].ops, *ops[1:]), (*(first for _ in decode), *inner, *others)
