"""What verbs have in common that take a user's function."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.errors import PlanError
from penstock.core.given import is_one_of
from penstock.core.quoted import quoted

if TYPE_CHECKING:
    from penstock.plan.nodes import FilterFunction, FlatMap, Map, MapRows

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


def check_function(node: Map | MapRows | FilterFunction | FlatMap) -> None:
    """PlanError for what cannot be called, and for a place to run that there is not."""
    if not callable(node.function):
        raise PlanError(
            f"{node.verb}: {quoted(node.function)} cannot be called; pass a function{_OR.get(node.verb, '')}"
        )
    check_text(node.verb, getattr(node, "text", "arrow"))
    if not is_one_of(node.workers, _WORKERS):
        raise PlanError(
            f"{node.verb}: workers={quoted(node.workers)}; pass 'thread', 'process' for functions that hold the interpreter, or 'auto' to find out by measuring. How many there are "
            f"follows from the CPUs that may be used; Loader(cpus=…) limits it"
        )
