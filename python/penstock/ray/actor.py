"""The actor of Ray: it makes the steps that loaders ask for, keeps what it made for others that want the same, and ends itself when nobody uses it."""

from __future__ import annotations

import math
import os
import platform
import threading
import time
from concurrent.futures import Future
from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import Any

import ray

from penstock.core.cpus import usable_cpus
from penstock.core.errors import ProcessError
from penstock.core.files.shards import from_another_machine
from penstock.loader.child.sent import Setup
from penstock.loader.options import LoaderOptions
from penstock.order.steps.cursor import Work
from penstock.processes.link import unpickled
from penstock.processes.raised import Raised, raised
from penstock.ray.data_here import check_data
from penstock.ray.digests import SentPlan, item_digest
from penstock.ray.kept import KeptItems
from penstock.ray.messages import Answer, MadeSteps, Told, User, Wanted, versions
from penstock.ray.streams import Streams
from penstock.runtime.free_memory import allowed_memory, default_memory

#: Seconds after which a loader that asked for nothing is forgotten although its process lives, and after which an actor ends that nobody has joined.
LEASE_S, _UNUSED_S = 1800.0, 60.0
#: How long steps wait for the plan, which another call opens.
_OPENS_S = 600.0
#: How often it is looked whether users live, and how long Ray is asked: a process that answers too late counts as alive.
_LOOK_S, _OWNER_S = 1.0, 1.0
#: Bytes of items that are kept for other loaders, and which part of the machine's memory they take at most.
_KEPT_BYTES, _KEPT_SHARE = 512 << 20, 32
#: Methods that answer at once, whatever is being made.
CONTROL = "control"


class StepMaker:
    """The actor. Its methods run in several threads of Ray's: each `make` waits for its own steps, which a run of the stages makes in the order of the calls."""

    def __init__(self, sent: SentPlan) -> None:
        self._sent: SentPlan | None = sent
        self._digest = sent.digest
        self._streams: Streams | None = None
        self._kept = KeptItems[MadeSteps](min(_KEPT_BYTES, allowed_memory() // _KEPT_SHARE))
        self._users: dict[str, tuple[User, float]] = {}  # and when each was seen last
        self._alive: dict[str, Any] = {}
        self._left: set[str] = set()  # whose last calls may still come, since each has a thread
        self._made = 0
        self._is_open = threading.Event()
        self._lock, self._opening = threading.Lock(), threading.Lock()
        self._begun_at = time.monotonic()
        threading.Thread(target=self._end_unused, name="penstock-ray-end", daemon=True).start()

    # Who uses it

    @ray.method(concurrency_group=CONTROL)  # type: ignore[untyped-decorator]
    def join(self, user: User, alive: list[Any], digest: str) -> Told | Raised:
        """A loader uses it from now on. An error, which names the node, where this machine cannot make its batches.

        alive: holds a reference to an object that the loader's process owns: Ray says when that is gone.
        """
        with self._lock:  # at once: opening may take longer than an actor waits for users
            self._left.discard(user.name)
            self._users[user.name], self._alive[user.name] = (user, time.monotonic()), alive[0]
        try:
            self._check(user, digest)
            with self._opening:
                if self._streams is None:
                    self._streams = self._opened(user)
                    self._sent = None
                    self._is_open.set()
        except BaseException as error:
            self._leaves(user.name)
            return raised(error)
        told: Told = self.renew(user)
        return told

    @ray.method(concurrency_group=CONTROL)  # type: ignore[untyped-decorator]
    def renew(self, user: User) -> Told:
        """A loader goes on using it."""
        self._note(user)
        with self._lock:
            asks = max((one.asks for one, _ in self._users.values()), default=1)
            users = len(self._users)
        return Told(_node(), os.getpid(), asks, users, self._made, self._kept.found)

    def _note(self, user: User) -> None:
        with self._lock:
            if user.name not in self._left:
                self._users[user.name] = user, time.monotonic()

    @ray.method(concurrency_group=CONTROL)  # type: ignore[untyped-decorator]
    def leave(self, name: str) -> None:
        """A loader uses it no more; the last one ends it."""
        self._leaves(name)
        if not self._users:
            _end()

    def _leaves(self, name: str) -> None:
        with self._lock:
            self._left.add(name)
            self._alive.pop(name, None)
        self._forget(name)

    def _forget(self, name: str) -> None:
        with self._lock:
            self._users.pop(name, None)
        self._kept.forget(name)

    def _end_unused(self) -> None:
        """Looks now and then whether anybody is left, as long as this process lives."""
        while True:
            time.sleep(_LOOK_S)
            now = time.monotonic()
            with self._lock:
                users, alive = [*self._users.values()], dict(self._alive)
            for user, seen_at in users:
                if not _is_alive(alive.get(user.name)):
                    self._leaves(user.name)
                elif now - seen_at > LEASE_S:
                    self._forget(user.name)
            if not self._users and (users or now - self._begun_at > _UNUSED_S):
                _end()

    # What is asked of this machine

    def _check(self, user: User, digest: str) -> None:
        mine = dict(versions())
        for name, version in user.versions:
            if mine.get(name) != version:
                raise ProcessError(
                    f"node {_node()}: its {name} is {mine.get(name)}, and the trainer's {version}; install the same, since batches are made by both"
                )
        if digest != self._digest:
            raise ProcessError(
                f"node {_node()}: an actor of this name makes the batches of another plan ({self._digest}, and this one's is {digest}); end it, or use another cluster"
            )

    def _opened(self, user: User) -> Streams:
        assert self._sent is not None  # nobody opened it yet
        is_same_machine = user.machine == platform.node()
        try:
            with nullcontext() if is_same_machine else from_another_machine():
                setup: Setup = unpickled(self._sent.pickled, self._sent.buffers)
        except (ImportError, AttributeError) as error:
            raise ProcessError(
                f"node {_node()}: the plan cannot be loaded there ({type(error).__name__}: {error}); install what the trainer's machine has, or put functions into "
                "the script itself"
            ) from error
        check_data(setup.dataset, _node())
        options = LoaderOptions(**setup.options)
        cpus = max(1, math.ceil(ray.get_runtime_context().get_assigned_resources().get("CPU", 1)))
        memory = options.memory_bytes or default_memory(max(1, usable_cpus() // cpus))
        return Streams(setup.dataset, replace(options, cpus=options.cpus or cpus, memory=memory))

    # Steps

    def make(self, user: User, wanted: Wanted, work: Work) -> Answer:
        """The steps, or the error that they met."""
        try:
            return self._item(user, wanted, work).result()
        except BaseException as error:
            return raised(_placed(error, work))

    def digest(self, user: User, wanted: Wanted, work: Work) -> bytes | Raised:
        """What identifies the content of the steps, as this actor makes them."""
        try:
            return item_digest(self._item(user, wanted, work).result().item.columns)
        except BaseException as error:
            return raised(error)

    def _item(self, user: User, wanted: Wanted, work: Work) -> Future[MadeSteps]:
        if not self._is_open.wait(timeout=_OPENS_S):
            raise ProcessError(f"node {_node()}: the plan was not opened there within {_OPENS_S:g} s")
        streams = self._streams
        assert streams is not None  # it is open
        self._note(user)
        made = self._kept.get(
            user.name, wanted, wanted.at(work), (wanted, work), lambda: self._begun(streams, wanted, work), _nbytes
        )
        if user.name in self._left:
            self._kept.forget(user.name)
        return made

    def _begun(self, streams: Streams, wanted: Wanted, work: Work) -> Future[MadeSteps]:
        made = streams.make(wanted, work)
        made.add_done_callback(self._count)
        return made

    def _count(self, _: object) -> None:
        with self._lock:
            self._made += 1


def _nbytes(made: MadeSteps) -> int:
    return made.nbytes


def _is_alive(owned: Any) -> bool:
    """Whether the process lives that owns an object."""
    if owned is not None:
        try:
            ray.get(owned, timeout=_OWNER_S)
        except ray.exceptions.GetTimeoutError:
            return True
        except ray.exceptions.RayError:
            return False
    return True


def _node() -> str:
    """The machine's name, and the beginning of Ray's number of the node."""
    return f"{platform.node()} {ray.get_runtime_context().get_node_id()[:8]}"


def _placed(error: BaseException, work: Work) -> BaseException:
    """The error, with a note that says where it arose."""
    if isinstance(error, Exception):
        steps = f"step {work.step}" if work.steps == 1 else f"steps {work.step} … {work.step + work.steps - 1}"
        error.add_note(f"made by an actor of Ray on node {_node()}, epoch {work.epoch}, {steps}")
    return error


def _end() -> None:
    """Ends this actor, and with it its process."""
    with suppress(Exception):
        ray.kill(ray.get_runtime_context().current_actor)
        time.sleep(5.0)
    os._exit(0)
