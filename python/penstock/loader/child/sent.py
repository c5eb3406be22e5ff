"""What goes to the child when it starts, and what cannot be sent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.core.errors import PenstockError, PlanError
from penstock.core.installing import pip_install
from penstock.core.messages import quoted
from penstock.dataset import Dataset
from penstock.plan.tree import flow
from penstock.processes.functions import culprits, dumps, kind_of
from penstock.processes.link import plain_dumps

#: Where a script's own functions and classes lie; the child does not run the script.
_OF_SCRIPT = b"__main__"
_ISOLATED, _ELSE = "isolation='process'", "leave isolation= out"


@dataclass(frozen=True, kw_only=True)
class Setup:
    """What the child makes its loader of. options: arguments of `Loader`. log_level: of the logger "penstock" in the parent."""

    dataset: Dataset
    options: dict[str, Any]
    log_level: int


def setup_dumps(
    setup: Any,
    travels: Callable[[Any], Any],
    who: str = _ISOLATED,
    otherwise: str = _ELSE,
    *,
    pickles: Callable[[Any, Callable[[Any], Any]], bytes] = dumps,
) -> bytes:
    """The pickled setup, functions with their code; without cloudpickle, what needs no code of the script."""
    try:
        return pickles(setup, travels)
    except ImportError as error:
        if error.name != "cloudpickle":
            raise
    pickled = plain_dumps(setup, travels)
    if _OF_SCRIPT in pickled:
        raise _lacks_cloudpickle(who, otherwise)
    return pickled


def check_sendable(dataset: Dataset, who: str = _ISOLATED, otherwise: str = _ELSE) -> None:
    """PlanError, which names what cannot be sent, if a dataset cannot. who: sends it; otherwise: what can be done instead."""

    def left_out(_: object) -> bool:
        return False

    try:
        setup_dumps(dataset, left_out, who, otherwise)
    except PlanError:
        raise
    except PenstockError as error:  # credentials, or what can be read only once
        raise PlanError(f"{who} sends the dataset to another process: {error}; or {otherwise}") from error
    except Exception as error:
        raise PlanError(
            f"{who} sends the dataset to another process, and {_culprit(dataset)} cannot be pickled ({error}); let functions make it when "
            f"they are first called, or {otherwise}"
        ) from error


def _culprit(dataset: Dataset) -> str:
    """What cannot be pickled, and whose it is."""
    for node in flow(dataset.root):
        for name, value in vars(node).items():
            if name in ("input", "inputs"):
                continue
            try:
                dumps(value)
            except ImportError:
                return f"a function (without the package cloudpickle: {pip_install('cloudpickle')})"
            except Exception:
                inner = next(culprits(value), (name, value)) if callable(value) else (name, value)
                return f"{quoted(inner[0])}, {kind_of(inner[1])}, of {getattr(node, 'verb', 'the source')},"
    return "it"


def _lacks_cloudpickle(who: str, otherwise: str) -> PlanError:
    return PlanError(
        f"{who} sends the script's own functions to another process, which needs the package cloudpickle; install it with "
        f"{pip_install('cloudpickle')}, or {otherwise}"
    )
