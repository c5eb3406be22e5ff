"""Functions on their way to other processes, by cloudpickle; this is its one importer."""

from __future__ import annotations

import inspect
import io
from collections.abc import Callable, Iterator, Mapping
from functools import cache, cached_property
from typing import Any

from penstock.core.errors import PlanError
from penstock.core.installing import pip_install
from penstock.core.messages import quoted


def dumps(thing: Any, travels: Callable[[Any], Any] | None = None) -> bytes:
    """The pickled thing; functions and classes of scripts and notebooks with their code. travels: see `buffer_callback` of `pickle.dumps`."""
    import cloudpickle

    pickled: bytes = cloudpickle.dumps(thing, protocol=5, buffer_callback=travels)
    return pickled


def dumps_as_new(thing: Any, travels: Callable[[Any], Any] | None = None) -> bytes:
    """The same without what objects note of themselves when they are first asked (`cached_property`): equal things have equal bytes, whatever was asked of them."""
    import cloudpickle

    class AsNew(cloudpickle.Pickler):  # type: ignore[misc]  # of Any
        def reducer_override(self, one: Any) -> Any:
            reduced = super().reducer_override(one)
            noted = _noted(type(one))  # type: ignore[arg-type]  # a class is hashable
            if reduced is not NotImplemented or noted.isdisjoint(getattr(one, "__dict__", ())):
                return reduced
            made, arguments, *state = one.__reduce_ex__(5)
            if state and isinstance(state[0], dict):
                state[0] = {name: value for name, value in state[0].items() if name not in noted}
            return made, arguments, *state

    written = io.BytesIO()
    AsNew(written, protocol=5, buffer_callback=travels).dump(thing)
    return written.getvalue()


@cache
def _noted(kind: type) -> frozenset[str]:
    """What objects of a class may note of themselves, by name."""
    return frozenset(
        name for base in kind.__mro__ for name, value in vars(base).items() if isinstance(value, cached_property)
    )


def pickled_function(function: Callable[..., Any], where: str) -> bytes:
    """A user's function, for another process. PlanError, which names what cannot be sent. where: "map(augment)"."""
    try:
        return dumps(function)
    except ImportError as error:
        if error.name != "cloudpickle":
            raise
        raise PlanError(
            f"{where}: workers='process' needs the package cloudpickle; install it with {pip_install('cloudpickle')}, or use workers='thread'"
        ) from None
    except Exception as error:
        culprit = next(culprits(function), None)
        named = "the function" if culprit is None else f"{quoted(culprit[0])}, {kind_of(culprit[1])},"
        raise PlanError(
            f"{where}: workers='process' sends the function to other processes, and {named} cannot be pickled ({error}); make it inside of the "
            f"function, when it is first called, or use workers='thread'"
        ) from error


def culprits(function: Any) -> Iterator[tuple[str, Any]]:
    """What a function holds that cannot be pickled, by name."""
    for name, value in _held(function).items():
        try:
            dumps(value)
        except Exception:
            yield next(culprits(value), (name, value)) if callable(value) else (name, value)


def _held(function: Any) -> Mapping[str, Any]:
    """What a function closes over and names, or what the attributes of an object are."""
    inner = inspect.unwrap(function) if callable(function) else function
    held = dict(getattr(inner, "__dict__", {}))
    if hasattr(inner, "__func__"):
        held["the object of this method"] = inner.__self__
    if hasattr(inner, "func"):  # functools.partial
        held |= {"func": inner.func, **{f"argument {number}": one for number, one in enumerate(inner.args)}}
        held |= inner.keywords
    if inspect.isfunction(inner):
        found = inspect.getclosurevars(inner)
        held |= {**found.globals, **found.nonlocals}
        held |= {f"default {number}": one for number, one in enumerate(inner.__defaults__ or ())}
        held |= inner.__kwdefaults__ or {}
    return held


def kind_of(value: Any) -> str:
    """A value by its class, as "a _thread.lock"."""
    kind = type(value)
    return f"a {kind.__module__}.{kind.__qualname__}"
