"""A loader whose process gets a signal, several cases: python -m support.preempted FOLDER CASE

Says on lines of its own where it is, so that the test knows when to send: "ready", "state {…}" when the user's function is called, "over" after a long step.
"""

from __future__ import annotations

import asyncio
import faulthandler
import hashlib
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import penstock as ps
from penstock.loader.preempt import Preemption

ROWS, BATCH = 64, 8
#: So long waits last that nobody ends.
LONG_S = 60.0


def numbers() -> ps.Dataset:
    return ps.from_arrays({"x": np.arange(ROWS)}).shuffle(seed=3)


def say(*words: object) -> None:
    """A line at once, which lines of other threads and processes do not cut in two."""
    os.write(1, f"{' '.join(map(str, words))}\n".encode())


def save(state: Any) -> None:
    say("state", json.dumps(state))


def slow_at(step: int) -> Callable[[Any], Any]:
    """Waits for long at one of the batches."""
    row = int(ps.Loader(numbers().batch(BATCH)).sample_ids(0, step)[0])

    def function(batch: Any) -> Any:
        if row in batch["x"]:
            say("ready")
            time.sleep(LONG_S)
        return batch

    return function


def long_step(seconds: float = 2.0) -> None:
    """Native code that no handler interrupts, which leaves the interpreter to others."""
    until = time.monotonic() + seconds
    hashlib.pbkdf2_hmac("sha256", b"", b"", round(seconds * 1e6))
    while time.monotonic() < until:
        pass


def at_third(loader: ps.Loader, then: Callable[[], object]) -> list[Any]:
    """All batches; after the third one was taken something happens."""
    seen = []
    for number, batch in enumerate(loader):
        seen.append(batch["x"].tolist())
        if number == 2:
            say("ready")
            then()
    return seen


def wait(preemption: Preemption) -> None:
    """Until the signal has come, which the test says on the standard input."""
    sys.stdin.readline()
    assert holds(lambda: preemption.requested)


def holds(what: Callable[[], bool]) -> bool:
    """Whether it does, soon."""
    until = time.monotonic() + LONG_S / 3
    while not what() and time.monotonic() < until:
        time.sleep(0.01)
    return what()


# Cases


def before_the_first_batch(folder: Path) -> None:
    loader = ps.Loader(numbers().batch(BATCH), ledger=folder / "ledger")
    preemption = loader.on_preempt(save)
    say("ready")
    wait(preemption)
    list(loader)


def while_a_batch_is_awaited(folder: Path, **options: Any) -> None:
    plan = numbers().batch(BATCH).map(slow_at(4))
    loader = ps.Loader(plan, ledger=folder / "ledger", prefetch=1, cpus=1, **options)
    loader.on_preempt(save)
    for batch in loader:
        say("taken", batch["x"].tolist())


def while_the_first_is_awaited(folder: Path) -> None:
    loader = ps.Loader(numbers().batch(BATCH).map(slow_at(0)), ledger=folder / "ledger")
    loader.on_preempt(save)
    list(loader)


def in_a_child_process(folder: Path) -> None:
    while_a_batch_is_awaited(folder, isolation="process")


def in_a_long_step(folder: Path, **options: Any) -> None:
    loader = ps.Loader(numbers().batch(BATCH), ledger=folder / "ledger", **options)
    loader.on_preempt(save, state_file=folder / "state.json")

    def step() -> None:
        long_step()
        say("over", time.time())

    at_third(loader, step)


def in_a_long_step_of_an_isolated_loader(folder: Path) -> None:
    in_a_long_step(folder, isolation="process")


def while_the_main_thread_has_no_turn(folder: Path) -> None:
    """A signal that is blocked waits for the main thread, as it does where that gets no CPU."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    loader = ps.Loader(numbers().batch(BATCH), ledger=folder / "ledger")
    preemption = loader.on_preempt(save, state_file=folder / "state.json")

    def written() -> None:
        say("written", holds((folder / "state.json").exists), preemption.requested)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])

    at_third(loader, written)


def without_a_function(folder: Path) -> None:
    loader = ps.Loader(numbers().batch(BATCH), ledger=folder / "ledger")
    loader.on_preempt(state_file=folder / "state.json")
    at_third(loader, lambda: time.sleep(LONG_S))


def with_a_handler_before(folder: Path) -> None:
    signal.signal(signal.SIGTERM, lambda number, frame: say("before", number, frame is not None))
    loader = ps.Loader(numbers().batch(BATCH), ledger=folder / "ledger")
    with loader.on_preempt(save) as preemption:
        seen = at_third(loader, lambda: (wait(preemption), long_step(0.3)))
        say("seen", json.dumps(seen))
        say("requested", preemption.requested)
    signal.raise_signal(signal.SIGTERM)


def with_a_handler_over_it(folder: Path) -> None:
    """As Lightning's, which is installed later and calls what was there."""
    loader = ps.Loader(numbers().batch(BATCH), ledger=folder / "ledger")
    preemption = loader.on_preempt(save)
    ours: Any = signal.getsignal(signal.SIGTERM)

    def over(number: int, frame: Any) -> None:
        say("over it", number)
        ours(number, frame)

    signal.signal(signal.SIGTERM, over)
    say("seen", json.dumps(at_third(loader, lambda: wait(preemption))))
    loader.close()
    say("stays", signal.getsignal(signal.SIGTERM) is over)


def that_goes_on(folder: Path) -> None:
    loader = ps.Loader(numbers().batch(BATCH), ledger=folder / "ledger")
    with loader.on_preempt(ends=False) as preemption:
        for number, _ in enumerate(loader):
            if number == 2:
                say("ready")
                wait(preemption)
            if preemption.requested:
                say("state", json.dumps(loader.state_dict()))
                break


def that_leaves_by_an_exit(folder: Path) -> None:
    loader = ps.Loader(numbers().batch(BATCH), ledger=folder / "ledger")

    def save_and_leave(state: Any) -> None:
        save(state)
        raise SystemExit(85)

    with loader.on_preempt(save_and_leave) as preemption:
        at_third(loader, lambda: wait(preemption))


def in_the_last_step(folder: Path) -> None:
    loader = ps.Loader(numbers().batch(BATCH), ledger=folder / "ledger")
    with loader.on_preempt(save) as preemption:
        for number, _ in enumerate(loader):
            if number == ROWS // BATCH - 1:
                say("ready")
                wait(preemption)


def in_the_last_step_of_a_loop_that_is_left(folder: Path) -> None:
    """Nobody asks for a batch any more; the signal is not lost."""
    loader = ps.Loader(numbers().batch(BATCH), ledger=folder / "ledger")
    with loader.on_preempt(save) as preemption:
        for _ in loader:
            say("ready")
            wait(preemption)
            break
    time.sleep(LONG_S)


def several_loaders(folder: Path) -> None:
    train = ps.Loader(numbers().batch(BATCH), ledger=folder / "ledger")
    val = ps.Loader(numbers().batch(4), ledger=folder / "val")
    train.on_preempt(lambda state: say("train", state["step"]))
    preemption = val.on_preempt(lambda state: say("val", state["step"]))
    for number, _ in enumerate(train):
        if number == 1:
            at_third(val, lambda: wait(preemption))


def in_another_thread(folder: Path) -> None:
    loader = ps.Loader(numbers().batch(BATCH), ledger=folder / "ledger")
    preemption = loader.on_preempt(save)
    thread = threading.Thread(target=at_third, args=(loader, lambda: wait(preemption)))
    thread.start()
    thread.join()
    time.sleep(LONG_S)


def beside_asyncio(folder: Path) -> None:
    """Its loop has a pipe for signals, too."""
    loader = ps.Loader(numbers().batch(BATCH), ledger=folder / "ledger")
    preemption = loader.on_preempt(save)

    async def main() -> None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR2, lambda: say("asyncio's"))
        os.kill(os.getpid(), signal.SIGUSR2)
        await asyncio.sleep(0.1)
        at_third(loader, lambda: wait(preemption))

    asyncio.run(main())


def below_asyncio(folder: Path) -> None:
    async def main() -> None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR2, lambda: say("asyncio's"))
        loader = ps.Loader(numbers().batch(BATCH), ledger=folder / "ledger")
        preemption = loader.on_preempt(save)
        os.kill(os.getpid(), signal.SIGUSR2)
        await asyncio.sleep(0.1)
        at_third(loader, lambda: wait(preemption))

    asyncio.run(main())


def with_a_fork(folder: Path) -> None:
    """A fork that is ended by the signal, as `Process.terminate` does, says nothing of this process."""
    loader = ps.Loader(numbers().batch(BATCH), ledger=folder / "ledger")
    preemption = loader.on_preempt(save)
    child = os.fork()
    if child == 0:
        time.sleep(LONG_S)
        os._exit(0)
    time.sleep(0.2)
    os.kill(child, signal.SIGTERM)
    _, status = os.waitpid(child, 0)
    time.sleep(0.2)
    say("fork", os.WTERMSIG(status), preemption.requested)
    at_third(loader, lambda: wait(preemption))


def restored(folder: Path) -> None:
    loader = ps.Loader(numbers().batch(BATCH))
    other = ps.Loader(numbers().batch(BATCH))
    one, two = loader.on_preempt(save), other.on_preempt(save, signals=["SIGTERM", "SIGUSR2"])
    loader.close()
    one.close()
    say(signal.getsignal(signal.SIGUSR1) == signal.SIG_DFL, signal.getsignal(signal.SIGTERM) == signal.SIG_DFL)
    two.close()
    say(*(signal.getsignal(number) == signal.SIG_DFL for number in (signal.SIGTERM, signal.SIGUSR2)))
    say(signal.set_wakeup_fd(-1))
    say(holds(lambda: "penstock-signals" not in {thread.name for thread in threading.enumerate()}))


def that_was_dropped(folder: Path) -> None:
    ps.Loader(numbers().batch(BATCH)).on_preempt(save)
    say("ready")
    time.sleep(LONG_S)


def main(folder: str, case: str) -> None:
    faulthandler.dump_traceback_later(LONG_S, exit=True)
    globals()[case](Path(folder))
    say("end")


if __name__ == "__main__":
    main(*sys.argv[1:])
