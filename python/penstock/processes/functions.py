"""Functions on their way to other processes, by cloudpickle; this is its one importer."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from penstock.core.errors import PlanError
from penstock.core.installing import pip_install
from penstock.core.messages import quoted


def dumps(thing: Any, travels: Callable[[Any], Any] | None = None) -> bytes:
    """The pickled thing; functions and classes of scripts and notebooks with their code. travels: see `buffer_callback` of `pickle.dumps`."""
    import cloudpickle

    pickled: bytes = cloudpickle.dumps(thing, protocol=5, buffer_callback=travels)
    return pickled


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
