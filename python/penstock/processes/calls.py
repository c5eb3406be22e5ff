"""What runs in a process of `workers="process"`: it waits for batches, calls the function, and answers."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

from penstock.core.columns.spec import Columns
from penstock.core.draw_keys import DrawKeys
from penstock.core.errors import PlanError, ProcessError
from penstock.core.functions.own_generators import OwnGenerators
from penstock.processes.link import Link, sendable, unpickled
from penstock.processes.memory import Regions
from penstock.processes.orphan import flush
from penstock.processes.polite import politely
from penstock.processes.raised import Raised, raised
from penstock.stages.call import CALLS, CallHere
from penstock.transform.function import BatchFunction, RowFunction


@dataclass(frozen=True, kw_only=True)
class SentFunction:
    """A user's function. pickled: itself. by_rows, verb, finds_all, text: see `RowFunction`. polite: whether nobody waits for it to be loaded."""

    pickled: bytes
    by_rows: bool
    verb: str
    name: str
    finds_all: bool
    text: str
    polite: bool = False


#: An item: the number of its function; this function, where the process has not got it yet; columns and keys (see `stages.call.FunctionCalls`); whether its first rows are made twice.
CallRequest: TypeAlias = tuple[int, SentFunction | None, Columns, DrawKeys, bool]


@dataclass(frozen=True, kw_only=True)
class DiffersAgain:
    """What the function returned, and what it did differently when it was called again; see `Repeats`."""

    made: Columns
    what: str


def serve(link: Link, _: Regions) -> None:
    """Serves until the parent closes its end."""
    link.send("ready")
    functions = _Functions()
    while True:
        _serve_one(link, functions)


class _Functions:
    """The functions that came, by their numbers; each is loaded when it is first called."""

    def __init__(self) -> None:
        self._sent, self._loaded = dict[int, SentFunction](), dict[int, CallHere]()

    def answer(self, request: CallRequest) -> Columns | DiffersAgain | Raised:
        """What a function returned, or raised."""
        number, sent, columns, keys, is_again = request
        del request
        try:
            if sent is not None:
                self._sent[number] = sent
            if (call := self._loaded.get(number)) is None:
                call = self._loaded[number] = _loaded(self._sent[number])
            notes = list[str]()
            if is_again:
                call.function.repeat_next(notes.append)
            made = sendable(call(columns, keys))
            return DiffersAgain(made=made, what=notes[0]) if notes else made
        except BaseException as error:  # the parent raises it
            return raised(error)


def _serve_one(link: Link, functions: _Functions) -> None:
    # The batch and what is made of it are in no variable here: what was received must be free when the answer goes.
    try:
        link.send(_flushed(functions.answer(link.receive())))
    except (MemoryError, ProcessError) as error:  # for what came, or what the function returned
        link.send(raised(error))


def _flushed(answer: Any) -> Any:
    flush()
    return answer


def _loaded(sent: SentFunction) -> CallHere:
    if sent.polite:
        politely(lambda: unpickled(sent.pickled))
    try:
        function = unpickled(sent.pickled)
    except Exception as error:
        raise PlanError(
            f"{sent.verb}({sent.name}): the function cannot be loaded in another process ({type(error).__name__}: {error}); put it into a module "
            f"that can be imported, or into the script itself, or use workers='thread'"
        ) from error
    _limit_threads()
    kind = RowFunction if sent.by_rows else BatchFunction
    call = kind(function, sent.verb, OwnGenerators(function))
    call.text = sent.text
    if isinstance(call, RowFunction):
        call.finds_all = sent.finds_all
    return CALLS[sent.verb](call)


def _limit_threads() -> None:
    """One thread for libraries that the function brought, and that look at no variable of the environment."""
    if "OMP_NUM_THREADS" in os.environ and os.environ["OMP_NUM_THREADS"] != "1":
        return
    for module, name, threads in (("torch", "set_num_threads", 1), ("cv2", "setNumThreads", 0)):
        with suppress(Exception):
            getattr(sys.modules[module], name)(threads)
