"""The failure contract at the top of runtime/run.py, case by case, as users meet it."""

from __future__ import annotations

import contextlib
import gc
import signal
import subprocess
import sys
import textwrap
import threading
import time
import traceback
import warnings
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

import penstock as ps
from penstock.loader.share import share_of
from penstock.order.steps.cursor import Work
from penstock.runtime import run as run_module
from penstock.runtime.run import Run
from penstock.runtime.stage import Item, Stage
from penstock.runtime.tune import Depth
from support import cases
from support import promises as contracts
from support.seams import lowered_of, made_bytes, runs_of

#: Threads that wait for a store that hangs, left by tests of other files that ran in this process.
_of_others: set[threading.Thread] = set()


def threads_of_penstock() -> list[str]:
    """Threads that Python started for runs; the native pools belong to the process and stay."""
    found = [thread for thread in threading.enumerate() if thread not in _of_others]
    return [thread.name for thread in found if thread.name.startswith("penstock-")]


@pytest.fixture(autouse=True, scope="module")
def others() -> None:
    _of_others.update(threading.enumerate())


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    check_ended()
    yield
    check_ended()


def check_ended() -> None:
    """Also of loaders that the garbage collector finds in another thread meanwhile."""
    gc.collect()
    deadline = time.monotonic() + 20
    while left := threads_of_penstock():
        assert time.monotonic() < deadline, left
        time.sleep(0.01)


def numbers(samples: int = 40) -> ps.Dataset:
    return ps.from_arrays({"id": np.arange(samples)})


def run_python(code: str, *, wait_s: float = 100, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", PRELUDE + textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=wait_s,
        check=False,
        **options,
    )


PRELUDE = """
import os, sys, time, threading, signal
import numpy as np
import penstock as ps

def numbers(samples=40):
    return ps.from_arrays({"id": np.arange(samples)})
"""


# 1. Success


def item_of(work: Work) -> Item:
    return Item(work=work, rows_per_step=1, find_ids=lambda: np.array([work.step]))


def test_items_leave_in_order_and_end() -> None:
    def jitter(given: Any) -> Item:
        item = given if isinstance(given, Item) else item_of(given)
        time.sleep(0.001 * (item.step % 3))
        return item

    stages = tuple(Stage(f"s{number}", "cpu", jitter, threads=1 + number) for number in range(3))
    made = Run(stages, (Work(0, step, 1) for step in range(50)), Depth())
    assert [item.step for item in made] == list(range(50))
    assert next(made, None) is None
    assert [meter.items for meter in made.meters] == [50, 50, 50]
    made.close()


def test_a_run_without_work_ends_at_once() -> None:
    made = Run((Stage("only", "cpu", item_of),), iter(()), Depth())
    assert list(made) == []
    made.close()


def test_a_broken_source_of_work_is_an_error_and_no_hang() -> None:
    def broken() -> Iterator[Work]:
        yield Work(0, 0, 1)
        raise ValueError("no more arithmetic")

    made = Run((Stage("a", "cpu", item_of), Stage("b", "cpu", lambda item: item, threads=2)), broken(), Depth())
    with pytest.raises(ValueError, match="no more arithmetic"):
        list(made)


# 2. A stage fails


class Mine(Exception):
    pass


def failing_at(*bad: int) -> Callable[[dict[str, Any]], dict[str, Any]]:
    def fails(batch: dict[str, Any]) -> dict[str, Any]:
        if set(bad) & set(batch["id"].tolist()):
            raise Mine("own words")
        return batch

    return fails


def test_the_users_own_exception_after_all_batches_before_it() -> None:
    loader = ps.Loader(numbers().batch(4).map(failing_at(22)), cpus=3)
    seen = []
    with pytest.raises(Mine) as caught:  # noqa: PT012
        for batch in loader:
            seen += batch["id"].tolist()
    assert seen == list(range(20))
    assert str(caught.value) == "own words"
    assert caught.value.__notes__ == [
        "penstock: stage 'map failing_at.<locals>.fails', epoch 0, step 5, sample ids 20, 21, 22, 23"
    ]
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert frames[-1].name == "fails"
    assert frames[-1].filename == __file__
    assert threads_of_penstock() == []
    assert (loader.epoch, loader.step) == (0, 5)


def test_a_new_pass_after_an_exception() -> None:
    bad = {22}
    loader = ps.Loader(numbers().batch(4).map(lambda batch: failing_at(*bad)(batch)))  # noqa: PLW0108
    for _ in range(2):
        with pytest.raises(Mine):
            list(loader)
    bad.clear()
    state = loader.state_dict()
    assert (state["epoch"], state["step"]) == (1, 5)
    loader.load_state_dict(state)
    assert [batch["id"][0] for batch in loader] == [20, 24, 28, 32, 36]
    assert len(list(loader)) == 10


def test_an_exception_keeps_nothing_alive() -> None:
    gc.disable()
    try:
        loader = ps.Loader(numbers().batch(4).map(failing_at(5)))
        with contextlib.suppress(Mine):
            list(loader)
        gone = weakref.ref(loader)
        del loader
        assert gone() is None, "a reference cycle holds the loader"
    finally:
        gc.enable()


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, MemoryError, GeneratorExit])
def test_any_exception_of_a_users_function_comes_through(kind: type[BaseException]) -> None:
    def fails(_: dict[str, Any]) -> dict[str, Any]:
        raise kind

    with pytest.raises(kind):
        list(ps.Loader(numbers().batch(4).map(fails)))


def test_stop_iteration_in_a_users_function_does_not_end_the_epoch_silently() -> None:
    def fails(_: dict[str, Any]) -> dict[str, Any]:
        return next(iter(()))

    with pytest.raises(ps.PlanError, match=r"map .*fails raised StopIteration, which would end the loop"):
        list(ps.Loader(numbers().batch(4).map(fails)))


def test_bad_rows_among_steps_made_together() -> None:
    """Small steps are made many at a time; one that fails does not take those before it along, nor the position."""
    dataset, storage = cases.numbered(40, 1)
    place = int(dataset.source.manifest.offset[17])
    good = storage.files["data/0.rec"]
    storage.files["data/0.rec"] = good[:place] + b"\xff" + good[place + 1 :]
    loader = ps.Loader(dataset.batch(4))
    assert lowered_of(loader).steps_per_item > 1
    seen = []
    with pytest.raises(ps.DataError, match="record 17"):  # noqa: PT012
        for batch in loader:
            seen += batch["id"].tolist()
    assert seen == list(range(16))
    assert (loader.epoch, loader.step) == (0, 4)
    storage.files["data/0.rec"] = good
    loader.load_state_dict(loader.state_dict())
    assert np.concatenate([batch["id"] for batch in loader]).tolist() == list(range(16, 40))


# 3. Cancelled


def test_break_stops_the_threads_and_the_next_pass_is_the_next_epoch() -> None:
    loader = ps.Loader(numbers().shuffle(seed=1).batch(4))
    for batch in loader:
        del batch
        break
    assert threads_of_penstock() == []
    assert (loader.epoch, loader.step) == (0, 1)
    first = next(iter(loader))
    contracts.assert_same(first, loader.batch_at(1, 0))
    loader.close()


def test_a_loader_dropped_half_way() -> None:
    def drop() -> weakref.ref[ps.Loader]:
        loader = ps.Loader(numbers(4000).batch(4).map(cases.doubled))
        passing = iter(loader)
        next(passing)
        assert threads_of_penstock() != []
        return weakref.ref(loader)

    assert drop()() is None
    assert threads_of_penstock() == []


def test_a_loader_in_a_cycle_is_collected() -> None:
    loader = ps.Loader(numbers(4000).batch(4))
    next(iter(loader))
    holder: dict[str, Any] = {"loader": loader, "passing": iter(loader)}
    next(holder["passing"])
    holder["holder"] = holder
    gone = weakref.ref(loader)
    del loader, holder
    gc.collect()
    assert gone() is None
    assert threads_of_penstock() == []


def test_close_twice_from_anywhere_and_go_on() -> None:
    loader = ps.Loader(numbers().batch(4))
    loader.close()
    passing = iter(loader)
    assert next(passing)["id"][0] == 0
    loader.close()
    other = threading.Thread(target=loader.close)
    other.start()
    other.join()
    assert threads_of_penstock() == []
    assert next(passing)["id"][0] == 4, "the position is kept"
    loader.close()
    with loader:
        assert len(list(loader)) == 10
    assert threads_of_penstock() == []


def test_close_while_another_thread_waits_for_a_batch() -> None:
    entered, release = threading.Event(), threading.Event()

    def slow(batch: dict[str, Any]) -> dict[str, Any]:
        entered.set()
        release.wait(60)
        return batch

    loader = ps.Loader(numbers().batch(4).map(slow))
    found: list[BaseException] = []

    def consume() -> None:
        try:
            next(iter(loader))
        except BaseException as error:
            found.append(error)

    consumer = threading.Thread(target=consume)
    consumer.start()
    entered.wait(60)
    while not runs_of(loader):
        time.sleep(0.01)
    run = runs_of(loader)[0][0]
    closer = threading.Thread(target=loader.close)
    closer.start()
    while not run._channels[-1]._closed:
        time.sleep(0.01)
    release.set()
    closer.join(60)
    consumer.join(60)
    assert [type(error) for error in found] == [ps.ProcessError]
    assert "closed while a batch was awaited" in str(found[0])


@pytest.mark.parametrize(
    ("supersede", "message"),
    [
        (
            lambda loader: loader.set_epoch(3),
            r"is over, since set_epoch\(3\) was called; go on with a new `for batch in",
        ),
        (lambda loader: loader.load_state_dict(loader.state_dict()), r"since load_state_dict\(…\) was called"),
        (iter, r"since another iteration began \(a loader holds one position; make a second one\)"),
    ],
)
def test_a_superseded_pass_says_so(supersede: Callable[[ps.Loader], Any], message: str) -> None:
    loader = ps.Loader(numbers().batch(4))
    old = iter(loader)
    next(old)
    new = supersede(loader)
    here = loader.epoch, loader.step
    with pytest.raises(ps.ProcessError, match=message):
        next(old)
    assert (loader.epoch, loader.step) == here
    if new is not None:
        assert next(new)["id"][0] == 0
    loader.close()


def test_a_superseded_pass_that_never_began_takes_nothing() -> None:
    loader = ps.Loader(numbers(8).batch(4))
    old, new = iter(loader), iter(loader)
    assert next(new)["id"][0] == 0
    assert next(new)["id"][0] == 4
    with pytest.raises(ps.ProcessError, match="since another iteration began"):
        next(old)
    assert (loader.epoch, loader.step) == (0, 2)
    assert next(new, None) is None
    assert (loader.epoch, loader.step) == (1, 0)
    loader.close()


# 4. Ctrl-C


@pytest.mark.slow
@pytest.mark.parametrize("where", ["waiting in next", "waiting in the user's loop"])
def test_ctrl_c(where: str) -> None:
    code = """
    def slow(batch):
        time.sleep(0.1)  # far less than threads are waited for after Ctrl-C
        return batch

    loader = ps.Loader(numbers(100_000).batch(4).map(slow), cpus=2)
    interrupts = threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT))
    try:
        for batch in loader:
            if not interrupts.ident:
                began = time.monotonic()
                interrupts.start()
            if WHERE:
                time.sleep(100)
    except KeyboardInterrupt:
        assert not any(t.name.startswith("penstock-") for t in threading.enumerate()) or WHERE
        print("interrupted", time.monotonic() - began < 50.0)
    """.replace("WHERE", str(where.endswith("loop")))
    done = run_python(code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "interrupted True"
    assert done.stderr == ""


@pytest.mark.slow
def test_ctrl_c_ends_a_script_that_does_not_catch_it() -> None:
    code = "loader = ps.Loader(numbers().batch(4).map(lambda b: (time.sleep(0.2), b)[1]))\nfor number in range(10**6):\n    list(loader)\n    number or print('go', flush=True)\n"
    child = subprocess.Popen(
        [sys.executable, "-c", PRELUDE + code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "go\n"
    time.sleep(0.5)
    child.send_signal(signal.SIGINT)
    began = time.monotonic()
    _, stderr = child.communicate(timeout=100)
    assert time.monotonic() - began < 60
    assert child.returncode == -signal.SIGINT
    assert stderr.rstrip().endswith("KeyboardInterrupt")


# 5. The process ends


@pytest.mark.slow
@pytest.mark.parametrize(
    "how", ["sys.exit(0)", "", "threading.Thread(target=lambda: list(loader)).start()", "del loader"]
)
def test_the_process_ends_with_a_run_going_on(how: str) -> None:
    code = (
        f"loader = ps.Loader(numbers(4000).batch(4).map(lambda b: b))\npassing = iter(loader)\nnext(passing)\n{how}\n"
    )
    done = run_python(code)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")  # a thread that did not stop would be warned of


# 6. Fork

FORKED = """
import warnings
warnings.simplefilter("ignore", DeprecationWarning)  # CPython's own about forking with threads

def in_child(work):
    child = os.fork()
    if child == 0:
        try:
            work()
            sys.stdout.flush()
            os._exit(0)
        except BaseException as error:
            print(type(error).__name__, error, flush=True)
            os._exit(1)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "hung"
"""


@pytest.mark.slow
def test_fork_after_use() -> None:
    code = FORKED + textwrap.dedent("""
    loader = ps.Loader(numbers(4000).shuffle().batch(40).map(lambda b: b))
    passing = iter(loader)
    next(passing)
    wanted = loader.batch_at(0, 3)["id"]

    def child():
        try:
            list(passing)
            raise SystemExit("no error")
        except ps.ProcessError as error:
            print("child:", error)
        new = ps.Loader(numbers(4000).shuffle().batch(40).map(lambda b: b))
        assert sum(len(b["id"]) for b in new) == 4000
        assert (new.batch_at(0, 3)["id"] == wanted).all()
        loader.close()
        assert sum(len(b["id"]) for b in loader) == 4000, "closed and begun anew, the old one works as well"

    for _ in range(5):
        assert in_child(child) == 0
    print("parent:", sum(len(b["id"]) for b in passing))
    """)
    done = run_python(code)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("child: this loader was started before a fork") == 5
    assert "parent: 3960" in done.stdout


@pytest.mark.slow
def test_a_forked_child_that_exits_normally_does_not_hang() -> None:
    """At its exit it closes what it has inherited; locks held in the parent must not matter."""
    code = FORKED + textwrap.dedent("""
    loader = ps.Loader(ps.from_arrays({"x": np.zeros((4000, 9000), np.uint8)}).batch(4), cpus=2)
    passing = iter(loader)
    batches = [next(passing) for _ in range(3)]

    def child():
        global batches, passing, loader
        batches = None
        del passing, loader
        import atexit, gc
        gc.collect()
        atexit._run_exitfuncs()

    feeding = threading.Thread(target=lambda: [b for b in ps.Loader(numbers(20_000).batch(4))], daemon=True)
    feeding.start()
    print([in_child(child) for _ in range(15)])
    feeding.join()
    """)
    done = run_python(code)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.strip() == str([0] * 15)


# 7. A function that never returns


@pytest.mark.slow
def test_a_function_that_never_returns_is_left_with_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "_PATIENCE_S", 0.3)
    entered, release = threading.Event(), threading.Event()

    def stuck(batch: dict[str, Any]) -> dict[str, Any]:
        if (
            batch["id"][0] >= 16
        ):  # the first calls are watched, while the loop waits: see penstock.core.functions.global_generators
            entered.set()
            release.wait(60)
        return batch

    loader = ps.Loader(numbers().batch(4).map(stuck), cpus=1)  # calls in the order of the batches
    passing = iter(loader)
    for _ in range(4):
        next(passing)
    assert entered.wait(60)
    began = time.monotonic()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run = runs_of(loader)[0][0]
        loader.close()
        run.close()  # as the end of a pass that an interrupt broke off does
    assert time.monotonic() - began < 30
    told = [str(one.message) for one in caught if one.category is not ResourceWarning]  # of what earlier tests left
    assert len(told) == 1
    assert "stuck" in told[0]
    assert "did not stop within" in told[0]
    release.set()
    deadline = time.monotonic() + 20
    while threads_of_penstock() and time.monotonic() < deadline:
        time.sleep(0.01)


# Several at once


def test_two_loaders_at_once() -> None:
    one, two = (ps.Loader(numbers().shuffle(seed=seed).batch(4)) for seed in (1, 2))
    for step, (a, b) in enumerate(zip(one, two, strict=True)):
        assert a["id"].tolist() == one.sample_ids(0, step).tolist()
        assert b["id"].tolist() == two.sample_ids(0, step).tolist()
    one.close()
    two.close()


def test_a_loader_inside_a_users_function() -> None:
    inner = ps.Loader(numbers(8).batch(8))

    def looks(batch: dict[str, Any]) -> dict[str, Any]:
        return {**batch, "other": inner.batch_at(0, 0)["id"][: len(batch["id"])]}

    with ps.Loader(numbers().batch(4).map(looks)) as loader:
        assert [batch["other"].tolist() for batch in loader] == [[0, 1, 2, 3]] * 10


def test_many_threads_each_with_a_loader() -> None:
    wanted = [batch["id"].tolist() for batch in ps.Loader(numbers(400).shuffle(seed=1).batch(8))]
    found: list[Any] = []

    def work() -> None:
        with ps.Loader(numbers(400).shuffle(seed=1).batch(8)) as loader:
            found.extend([[batch["id"].tolist() for batch in loader]])

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)
    assert found == [wanted] * 6


# Nothing leaks


def resources() -> tuple[int, int]:
    process = psutil.Process()
    gc.collect()
    return process.num_fds(), process.num_threads()


@pytest.mark.long
def test_a_thousand_epochs_and_two_hundred_loaders_leave_nothing_behind() -> None:
    big = ps.from_arrays({"id": np.arange(64), "data": np.zeros((64, 2_000), dtype=np.uint8)}).shuffle().batch(32)

    def epochs(count: int) -> None:
        with ps.Loader(big) as loader:
            for _ in range(count):
                for _ in loader:
                    pass

    def loaders(count: int) -> None:
        for _ in range(count):
            next(iter(ps.Loader(big)))

    epochs(20)
    loaders(20)
    before, memory = resources(), psutil.Process().memory_info().rss
    epochs(1_000)
    loaders(200)
    files, threads = resources()
    assert files <= before[0]
    assert threads <= before[1]
    grown = psutil.Process().memory_info().rss - memory
    assert grown < 16 << 20, f"{grown / 1e6:.1f} MB more than before"


def test_memory_is_bounded_by_prefetch() -> None:
    """A slow consumer meets a bounded number of batches made ahead, and their memory is used again."""
    loader = ps.Loader(ps.from_arrays({"x": np.zeros((4000, 1 << 18), dtype=np.uint8)[:64]}).batch(32), prefetch=1)
    for _ in range(20):
        for _ in loader:
            pass
    made = made_bytes(loader)
    loader.close()
    assert made <= 8 * (32 << 18)


def test_files_are_closed(tmp_path: Any) -> None:
    dataset = cases.folder(30, tmp_path).batch(4)
    with ps.Loader(dataset) as loader:
        list(loader)
        before = psutil.Process().num_fds()
        for _ in range(30):
            list(loader)
    assert psutil.Process().num_fds() <= before


def test_figures_stay_after_the_end() -> None:
    loader = ps.Loader(numbers().batch(4))
    assert loader.report().startswith("No batch was made yet.")
    for batch in loader:
        del batch
        break
    assert loader.stats()["samples"] >= 4
    assert "gather" in loader.report()


def test_a_loader_shows_itself() -> None:
    loader = ps.Loader(numbers(20).shuffle().batch(4), rank=1, world_size=2)
    assert repr(loader) == (
        "Loader(Dataset(20 samples: read -> shuffle -> batch), rank 1 of 2: 5 steps of 2 rows an epoch, to numpy; next is epoch 0, "
        "step 0)"
    )
    next(iter(loader))
    assert repr(loader).endswith("next is epoch 0, step 1)")
    loader.close()
    assert "to numpy on cpu;" in repr(ps.Loader(numbers(20).batch(4), device="cpu"))


def test_steps_made_one_by_one_share_their_stages(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = ps.read(photos).shuffle(seed=0, block_rows=4).map(_careful).batch(4)
    wanted = [batch["label"].tolist() for batch in ps.Loader(plan, epochs=1)]
    shares: list[int | None] = []

    def counted(*arguments: Any, **options: Any) -> Any:
        shares.append(options["options"].cpus)
        return share_of(*arguments, **options)

    monkeypatch.setattr("penstock.loader.rank.share_of", counted)
    loader = ps.Loader(plan, cpus=1, memory="1MB")  # room for the shares of a few batches alone
    for step in (9, 0, 5, 5, 1, 8):
        assert loader.batch_at(0, step)["label"].tolist() == wanted[step]
    for _ in range(30):
        loader.batch_at(1, 3)
    _careful.failing = True
    with pytest.raises(ValueError, match="not this one"):
        loader.batch_at(0, 2)
    _careful.failing = False
    assert loader.batch_at(0, 2)["label"].tolist() == wanted[2]
    assert shares == [1] * 3  # the loader's, those of single steps, and new ones after the error
    with ThreadPoolExecutor(4) as threads:
        assert [
            batch["label"].tolist() for batch in threads.map(lambda step: loader.batch_at(0, step), range(10))
        ] == wanted
    loader.close()


class _Careful:
    failing = False

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        if self.failing:
            raise ValueError("not this one")
        return {"label": batch["label"]}


_careful = _Careful()


# Steps that are made together


class Failing:
    """Items whose number 30 raises, the first time only or always."""

    def __init__(self, kind: type[BaseException], times: int) -> None:
        self._kind, self._left = kind, times

    def __len__(self) -> int:
        return 100

    def __getitem__(self, number: int) -> dict[str, int]:
        if number == 30 and self._left:
            self._left -= 1
            raise self._kind("own words")
        return {"id": number}


@pytest.mark.slow
@pytest.mark.parametrize("isolation", [None, "process"])
@pytest.mark.parametrize("kind", [KeyError, KeyboardInterrupt, SystemExit])
def test_any_exception_of_an_item_comes_after_all_batches_before_it(kind: type[BaseException], isolation: Any) -> None:
    loader, seen = ps.Loader(ps.from_dataset(Failing(kind, 1_000)).batch(4), isolation=isolation), []
    with pytest.raises(kind, match="own words"):  # noqa: PT012
        for batch in loader:
            seen += batch["id"].tolist()
    assert seen == list(range(28))
    assert (loader.epoch, loader.step) == (0, 7)
    loader.close()


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_whoever_leaves_once_has_left(kind: type[BaseException]) -> None:
    """Steps are made again one by one to find the one that failed; that it does not fail again does not undo what it wanted."""
    loader, seen = ps.Loader(ps.from_dataset(Failing(kind, 1)).batch(4), epochs=1), []
    assert lowered_of(loader).steps_per_item > 1
    with pytest.raises(kind, match="own words"):  # noqa: PT012
        for batch in loader:
            seen += batch["id"].tolist()
    assert seen == list(range(len(seen)))
    assert len(seen) >= 28


def test_a_million_cpus_ask_for_no_more_threads_than_help() -> None:
    dataset = numbers().batch(4).map(lambda batch: batch)
    before = threading.active_count()
    with ps.Loader(dataset, cpus=1_000_000) as loader:
        next(iter(loader))
        assert threading.active_count() - before < 600
