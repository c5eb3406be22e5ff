"""Ops of another library, one after another, as a `Recipe`: native from the first on, as far as that goes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, Protocol

from penstock.core.columns.spec import Field
from penstock.core.errors import PlanError
from penstock.core.messages import quoted
from penstock.transform.image.decode import Decode
from penstock.transform.image.geometry import Resize
from penstock.transform.image.kernel import chain_of
from penstock.transform.image.margins import Pad, RandomZoomOut
from penstock.transform.image.nested import NestedOp
from penstock.transform.image.numbers import ToLayout
from penstock.transform.image.op import Chain, ImageOp
from penstock.transform.image.sizes import RandomResize, RandomShortestSize, ScaleJitter
from penstock.transform.image.warps import RandomRotation
from penstock.transform.recipe import NATIVE, NEARLY, PYTHON, Recipe, Step

Workers = Literal["thread", "process", "auto"]


class NotNativeError(Exception):
    """Why an op has none of ours that does the same, as the message."""


class Made(NamedTuple):
    """What an op became: ops, where its pixels differ by more than a level (text), and what the next op gets, None for the same as this one."""

    ops: tuple[ImageOp, ...]
    differs: str = ""
    state: str | None = None


class Library(Protocol):
    """What is special of a library. state: what an op gets, by a word of the library's own."""

    def made(self, step: Any, state: str, chain: Chain) -> Made:
        """An op as ours; NotNativeError."""

    def name(self, step: Any, *, is_native: bool) -> str:
        """An op as its library writes it, without addresses."""

    def last(self, state: str) -> tuple[ImageOp, ...]:
        """Ops at the end of a chain that is all native."""

    def handed(self, state: str) -> tuple[ImageOp, ...]:
        """Ops at the end of a chain that a function goes on with."""

    def function(self, steps: tuple[Any, ...], state: str, decode: Decode | None, chain: Chain) -> Callable[[Any], Any]:
        """What does the steps in Python."""


@dataclass(frozen=True, kw_only=True)
class _Joint:
    """Where a recipe can be cut: behind so many native ops. is_one_size: whether all images have one there."""

    ops: tuple[ImageOp, ...]
    chain: Chain
    state: str
    is_one_size: bool

    def after(self, made: Made) -> _Joint:
        chain, is_one_size = self.chain, self.is_one_size
        for number, op in enumerate(made.ops, len(self.ops)):
            chain = op.extend(replace(chain, number=number))
            is_one_size = _one_size(op, is_one_size)
        state = self.state if made.state is None else made.state
        return _Joint(ops=(*self.ops, *made.ops), chain=chain, state=state, is_one_size=is_one_size)

    @property
    def holds(self) -> str:
        """Why a function cannot go on there: a batch must hold what it gets, and NumPy name it; "" where it can."""
        if not self.is_one_size:
            return "images have several sizes until then, which no batch can hold"
        if self.chain.crops > 1:
            return "each image is several until then, which it takes one by one"
        return "" if self.chain.numbers.dtype != "bfloat16" else "numbers are bfloat16 until then, which NumPy lacks"


def assembled(
    library: Library, steps: Sequence[Any], state: str, *, decode: Decode | None, strict: bool, workers: Workers
) -> Recipe:
    """The recipe. decode: what the column's bytes begin with, None for pixels. PlanError where `strict` and a step has no native op."""
    begin: tuple[ImageOp, ...] = () if decode is None else (decode,)
    source = Field("uint8", (64, 64, 3)) if decode is None else Field("bytes")
    places = [_Joint(ops=begin, chain=chain_of(begin, source, ()), state=state, is_one_size=decode is None)]
    said, why = list[Step](), ""
    for step in steps:
        try:
            made = library.made(step, places[-1].state, places[-1].chain)
            places.append(places[-1].after(made))
        except (NotNativeError, PlanError) as error:
            why = str(error)
            break
        said.append(Step(library.name(step, is_native=True), NEARLY if made.differs else NATIVE, made.differs))
    if len(said) == len(steps):
        return Recipe(ops=(*places[-1].ops, *library.last(places[-1].state)), steps=tuple(said), workers=workers)
    refused = library.name(steps[len(said)], is_native=False)
    if strict:
        raise PlanError(f"{refused} has no native op: {why}; leave it out, or let it run as Python (strict=False)")
    return _with_end(library, steps, places, (*said, Step(refused, PYTHON, why)), decode, workers)


def _with_end(
    library: Library,
    steps: Sequence[Any],
    places: Sequence[_Joint],
    said: Sequence[Step],
    decode: Decode | None,
    workers: Workers,
) -> Recipe:
    """The recipe whose last native step is the last behind which all images have one size; without such a step, nothing of it is native, nor is the decoding."""
    refused = said[-1].name
    cut = max((place for place, one in enumerate(places) if not one.holds), default=0)
    place = places[cut]
    told = [
        one if number < cut else one._replace(how=PYTHON, why=f"before {refused}; {places[number + 1].holds}")
        for number, one in enumerate(said[:-1])
    ]
    told.append(said[-1])
    told += [Step(library.name(step, is_native=False), PYTHON, f"after {refused}") for step in steps[len(said) :]]
    if place.holds:
        told = [Step("Decode", PYTHON, place.holds), *told]
        return Recipe(
            ops=(),
            function=library.function(tuple(steps), place.state, decode, place.chain),
            steps=tuple(told),
            workers=workers,
        )
    handed = library.handed(place.state) if place.ops else ()
    function = library.function(
        tuple(steps[cut:]), place.state, None, replace(place.chain, layout=_layout(place.ops, handed))
    )
    return Recipe(ops=(*place.ops, *handed), function=function, steps=tuple(told), workers=workers)


def _layout(ops: Sequence[ImageOp], handed: Sequence[ImageOp]) -> Any:
    """Of the pixels that a function gets: those of a column that no op has touched lie channels last."""
    return "NHWC" if not ops or any(isinstance(op, ToLayout) and op.layout == "NHWC" for op in handed) else "NCHW"


#: Ops whose results have a size of their own for each row.
_OF_MANY_SIZES = (RandomResize, RandomShortestSize, ScaleJitter, RandomZoomOut)


def _one_size(op: ImageOp, before: bool) -> bool:
    """Whether all images have one size behind an op. before: whether they had."""
    if isinstance(op, NestedOp):
        if not op.always:
            return before and not any(map(_changes_size, op.ops))
        for inner in op.ops:
            before = _one_size(inner, before)
        return before
    if getattr(op, "fixes_size", False):
        return True
    if isinstance(op, _OF_MANY_SIZES) or (isinstance(op, RandomRotation) and op.expand):
        return False
    return before


def _changes_size(op: ImageOp) -> bool:
    if isinstance(op, NestedOp):
        return any(map(_changes_size, op.ops))
    return isinstance(op, (Resize, Pad)) or not _one_size(op, True) or _one_size(op, False)


def check_given(given: Any, library: str, example: str) -> None:
    """PlanError for what is no transform."""
    if isinstance(given, type):
        raise PlanError(f"{given.__qualname__} is a class; give one of its objects, {given.__qualname__}(…)")
    if given is None or not callable(given):
        raise PlanError(f"{quoted(given)}: no transform of {library}; give one such as {example}")
