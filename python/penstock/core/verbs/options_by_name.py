"""Options that are passed by name alone, since other libraries have something else in their place."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from penstock.core.errors import PlanError
from penstock.core.messages import quoted

Function = TypeVar("Function", bound=Callable[..., Any])


def options_by_name(instead: str, *, called: str = "", shows_call: bool = False) -> Callable[[Function], Function]:
    """A function whose positional arguments that it does not have are a PlanError: shuffle(1000) is a buffer in tf.data.

    What tools and type checkers see stays the function's own signature. instead: what to write. called: its name in the error. shows_call: the error
    begins with the call as it was written, not with what is wrong about it.
    """

    def decorate(function: Function) -> Function:
        most, name = function.__code__.co_argcount, called or function.__name__

        @wraps(function)
        def checked(*given: Any, **options: Any) -> Any:
            if len(given) > most:
                shown = ", ".join(map(quoted, given[1 if shows_call else most :]))
                wrong = f"{shown} is passed by position, where other libraries mean something else; "
                raise PlanError(f"{name}({shown}): {instead}" if shows_call else f"{name}: {wrong}{instead}")
            return function(*given, **options)

        return cast("Function", checked)

    return decorate
