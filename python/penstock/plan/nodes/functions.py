"""What verbs have in common that take a user's function."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from penstock.core.arguments import is_one_of
from penstock.core.errors import PlanError
from penstock.core.messages import quoted
from penstock.plan.node import Verb

#: What else verbs take in place of a function.
_OR = {"filter": ", or an expression such as penstock.col('width') >= 64"}

#: Where users' functions run.
_WORKERS = ("thread", "process", "auto")


def check_text(verb: str, text: str) -> None:
    """PlanError for a way to get text that there is not."""
    if not is_one_of(text, ("arrow", "list")):
        raise PlanError(
            f"{verb}: text={quoted(text)}; choose 'list', for lists of str (and of bytes), or 'arrow', for Arrow arrays"
        )


class FunctionVerb(Verb):
    """A verb that calls a user's function: its `function`, which runs where `workers` says."""

    function: Callable[..., Any]
    workers: str

    computes = True

    def __post_init__(self) -> None:
        """PlanError for what cannot be called, and for a place to run that there is not."""
        if not callable(self.function):
            raise PlanError(
                f"{self.verb}: {quoted(self.function)} cannot be called; pass a function{_OR.get(self.verb, '')}"
            )
        check_text(self.verb, self._text)
        if not is_one_of(self.workers, _WORKERS):
            raise PlanError(
                f"{self.verb}: workers={quoted(self.workers)}; pass 'thread', 'process' for functions that hold the interpreter, or 'auto' to find out by measuring. How many there are "
                f"follows from the CPUs that may be used; Loader(cpus=…) limits it"
            )

    @property
    def user_function(self) -> Callable[..., Any] | None:
        """The user's function."""
        return self.function

    def said(self) -> Iterator[tuple[str, str]]:
        """How it gets text, where that is not as usual."""
        if self._text != "arrow":
            yield "text", self._text

    @property
    def _text(self) -> str:
        return getattr(self, "text", "arrow")
