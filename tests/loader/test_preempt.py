"""What a signal does to a loader with `on_preempt`: real signals, in processes of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.observe.ledger.verify import verify
from support import preempted
from support.preempted import BATCH, ROWS, numbers

#: Cases in which batches are made ahead of those that were taken.
AHEAD = {"in_a_child_process", "while_a_batch_is_awaited"}
TESTS = Path(__file__).parent.parent


class Preempted:
    """A process that runs a case, and is sent signals when it is ready."""

    def __init__(self, folder: Path, case: str) -> None:
        self.said: list[str] = []
        self.child = subprocess.Popen(
            [sys.executable, "-m", "support.preempted", str(folder), case],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])},
        )  # fmt: skip

    def send(self, *numbers: int, to_group: bool = False) -> None:
        """Sends signals once it has said that it is ready."""
        assert self.child.stdout is not None
        assert self.child.stdin is not None
        for line in self.child.stdout:
            self.said.append(line.rstrip())
            if line == "ready\n":
                break
        for number in numbers:
            (os.killpg if to_group else os.kill)(self.child.pid, number)
        with suppress(BrokenPipeError):  # it has ended
            self.child.stdin.write("\n")
            self.child.stdin.flush()

    def end(self) -> int:
        """What it ends by; what it said before stands in `said`."""
        out, error = self.child.communicate(timeout=70)
        self.said += out.splitlines()
        assert "File" not in error, (self.said, error)
        return self.child.returncode

    def after(self, word: str) -> list[str]:
        return [line.removeprefix(f"{word} ") for line in self.said if line.startswith(f"{word} ")]

    def states(self) -> list[Any]:
        return [json.loads(said) for said in self.after("state")]


def run(folder: Path, case: str, *numbers: int, to_group: bool = False) -> tuple[Preempted, int]:
    one = Preempted(folder, case)
    try:
        one.send(*numbers or [signal.SIGTERM], to_group=to_group)
        return one, one.end()
    finally:
        if one.child.poll() is None:
            os.killpg(one.child.pid, signal.SIGKILL)
            one.child.wait()


def assert_goes_on(folder: Path, state: Any, *, steps_again: int = 0) -> None:
    """From the state to the end of the next epoch; then the ledger has every row once."""
    with ps.Loader(numbers().batch(BATCH), ledger=folder / "ledger") as loader:
        loader.load_state_dict(state, strict=False)
        for _ in range(2):
            list(loader)
    report = verify([str(folder / "ledger")])
    assert report.wrong == []
    assert [one.rows for one in report.epochs] == [ROWS, ROWS]
    assert sum(one.steps_again for one in report.resumes) == steps_again


@pytest.mark.parametrize(
    ("case", "step"),
    [
        pytest.param("before_the_first_batch", 0, marks=pytest.mark.slow),
        pytest.param("while_the_first_is_awaited", 0, marks=pytest.mark.long),
        pytest.param("while_a_batch_is_awaited", 4, marks=pytest.mark.slow),
        pytest.param("in_a_child_process", 4, marks=pytest.mark.slow),
        ("in_a_long_step", 3),
        pytest.param("in_a_long_step_of_an_isolated_loader", 3, marks=pytest.mark.slow),
        pytest.param("in_another_thread", 3, marks=pytest.mark.slow),
        pytest.param("beside_asyncio", 3, marks=pytest.mark.slow),
        pytest.param("below_asyncio", 3, marks=pytest.mark.long),
        pytest.param("with_a_fork", 3, marks=pytest.mark.slow),
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning")  # the plan that is resumed has no function that waits
def test_the_state_is_saved_once_and_the_process_ends_by_the_signal(tmp_path: Path, case: str, step: int) -> None:
    one, ended = run(tmp_path, case)
    assert ended == -signal.SIGTERM, one.said
    [state] = one.states()
    assert state["step"] <= step if case in AHEAD else state["step"] == step
    assert_goes_on(tmp_path, state)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("case", ["in_a_child_process", "while_a_batch_is_awaited", "in_a_long_step"])
def test_signals_may_go_to_all_processes_and_come_more_than_once(tmp_path: Path, case: str) -> None:
    """As SLURM and torchrun do: both send to a worker, and SLURM to what it started, too."""
    one, ended = run(tmp_path, case, signal.SIGUSR1, signal.SIGTERM, signal.SIGUSR1, to_group=True)
    assert ended in (-signal.SIGTERM, -signal.SIGUSR1), one.said
    [state] = one.states()
    assert_goes_on(tmp_path, state)


@pytest.mark.slow
@pytest.mark.parametrize("case", ["in_a_long_step", "in_a_long_step_of_an_isolated_loader"])
def test_state_and_ledger_are_written_in_the_midst_of_a_long_step(tmp_path: Path, case: str) -> None:
    one, _ = run(tmp_path, case)
    [over] = one.after("over")
    file = tmp_path / "state.json"
    assert file.stat().st_mtime < float(over)
    assert max(path.stat().st_mtime for path in (tmp_path / "ledger").iterdir()) < float(over)
    assert json.loads(file.read_text()) == one.states()[0]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of signals that are pending")
def test_a_signal_is_heard_of_before_the_main_thread_has_its_turn(tmp_path: Path) -> None:
    one, ended = run(tmp_path, "while_the_main_thread_has_no_turn")
    assert ended == -signal.SIGTERM, one.said
    assert one.after("written") == ["True True"]
    [state] = one.states()
    assert state["step"] == 3
    assert_goes_on(tmp_path, state)


@pytest.mark.slow
def test_without_a_function_the_process_ends_as_soon_as_the_state_is_written(tmp_path: Path) -> None:
    one, ended = run(tmp_path, "without_a_function", signal.SIGUSR1)
    assert ended == -signal.SIGUSR1, one.said
    assert_goes_on(tmp_path, json.loads((tmp_path / "state.json").read_text()))


@pytest.mark.slow
def test_a_handler_that_was_there_is_called_afterwards_and_restored(tmp_path: Path) -> None:
    one, ended = run(tmp_path, "with_a_handler_before")
    assert ended == 0
    number = int(signal.SIGTERM)
    lines = [line.partition(" ")[0] for line in one.said]
    assert lines == ["ready", "state", "before", "seen", "requested", "before", "end"]
    assert one.after("before") == [f"{number} True", f"{number} True"]
    seen = json.loads(one.after("seen")[0])
    assert np.array_equal(seen, [batch["x"] for batch in ps.Loader(numbers().batch(BATCH))])
    assert_goes_on(tmp_path, one.states()[0], steps_again=ROWS // BATCH - 3)


@pytest.mark.slow
def test_a_handler_over_it_decides_how_the_process_ends(tmp_path: Path) -> None:
    one, ended = run(tmp_path, "with_a_handler_over_it")
    assert ended == 0
    assert [line.partition(" ")[0] for line in one.said] == ["ready", "over", "state", "seen", "stays", "end"]
    assert one.after("stays") == ["True"]


@pytest.mark.slow
def test_a_loop_may_go_on_and_ask(tmp_path: Path) -> None:
    one, ended = run(tmp_path, "that_goes_on")
    assert ended == 0
    [state] = one.states()
    assert state["step"] == 3
    assert_goes_on(tmp_path, state)


@pytest.mark.slow
def test_the_function_may_end_the_process_itself(tmp_path: Path) -> None:
    one, ended = run(tmp_path, "that_leaves_by_an_exit")
    assert ended == 85
    assert_goes_on(tmp_path, one.states()[0])


@pytest.mark.slow
def test_the_last_step_is_saved_as_the_next_epochs_begin(tmp_path: Path) -> None:
    one, ended = run(tmp_path, "in_the_last_step")
    assert ended == -signal.SIGTERM
    [state] = one.states()
    assert (state["epoch"], state["step"]) == (1, 0)


@pytest.mark.slow
def test_a_signal_is_not_lost_where_no_batch_is_asked_for_any_more(tmp_path: Path) -> None:
    one, ended = run(tmp_path, "in_the_last_step_of_a_loop_that_is_left")
    assert ended == -signal.SIGTERM
    assert one.states() == []


@pytest.mark.slow
def test_all_loaders_save_when_the_first_of_them_is_asked(tmp_path: Path) -> None:
    """In the midst of a validation: the training's loader stands behind the batch that was trained on."""
    one, ended = run(tmp_path, "several_loaders")
    assert ended == -signal.SIGTERM
    assert (one.after("train"), one.after("val")) == (["2"], ["3"])


@pytest.mark.slow
def test_what_was_there_before_is_restored(tmp_path: Path) -> None:
    one, _ = run(tmp_path, "restored", 0)
    assert one.said == ["True False", "True True", "-1", "True", "end"]


@pytest.mark.slow
def test_a_loader_that_nobody_holds_saves_nothing(tmp_path: Path) -> None:
    one, ended = run(tmp_path, "that_was_dropped")
    assert ended == -signal.SIGTERM
    assert one.said == ["ready"]


def test_a_request_saves_without_a_signal() -> None:
    saved: list[Any] = []
    with ps.Loader(numbers().batch(BATCH)) as loader:
        preemption = loader.on_preempt(saved.append, signals=())
        rows: list[int] = []
        for number, batch in enumerate(loader):
            rows += batch["x"].tolist()
            if number == 4:
                preemption.request()
                assert saved == []
        assert [state["step"] for state in saved] == [5]
        assert sorted(rows) == list(range(ROWS))


def test_a_request_of_another_thread_wakes_a_loop_that_waits() -> None:
    begun, may_go, saved = threading.Event(), threading.Event(), list[Any]()

    def function(batch: Any) -> Any:
        if batch["x"][0] == 24:
            begun.set()
            may_go.wait(30)
        return batch

    plan = ps.from_arrays({"x": np.arange(ROWS)}).batch(BATCH).map(function)
    with ps.Loader(plan, cpus=1) as loader:

        def save(state: Any) -> None:
            saved.append(state["step"])
            may_go.set()

        preemption = loader.on_preempt(save, signals=())
        threading.Thread(target=lambda: begun.wait(30) and preemption.request()).start()
        assert np.concatenate([batch["x"] for batch in loader]).tolist() == list(range(ROWS))
        assert len(saved) == 1
        assert saved[0] <= 3


@pytest.mark.parametrize("size", [BATCH, 1])
def test_a_run_of_all_steps_that_is_stopped_is_not_the_end_of_the_epoch(
    monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """Its work is over, and so are its items, since they are stopped: those that were not taken come again."""
    with ps.Loader(numbers().batch(size), epochs=1) as loader:
        items: Any = loader._rank.items
        plain, asked = items._watchdog.next_item, list[int]()

        def next_item(run: Any, *others: Any) -> Any:
            asked.append(1)
            if len(asked) == 1:
                assert preempted.holds(lambda: run._channels[-1].end is not None)
                items.interrupt()
            return plain(run, *others)

        monkeypatch.setattr(items._watchdog, "next_item", next_item)
        assert sorted(row for batch in loader for row in batch["x"].tolist()) == list(range(ROWS))
        assert len(asked) > 1


def even(batch: Any) -> Any:
    return batch["x"] % 2 == 0


@pytest.mark.parametrize("options", [{}, pytest.param({"isolation": "process"}, marks=pytest.mark.slow)])
def test_the_batches_after_a_request_are_those_without_one(options: dict[str, Any]) -> None:
    """Also where rows depend on what the data says, and steps are made together."""
    plan = numbers().filter(even).batch(4, steps=20)
    saved: list[Any] = []
    with ps.Loader(plan) as alone, ps.Loader(plan, **options) as loader, ps.Loader(plan) as other:
        expected = [batch["x"].tolist() for batch in alone]
        preemption, seen = loader.on_preempt(saved.append, signals=()), []
        for number, batch in enumerate(loader):
            seen.append(batch["x"].tolist())
            if number in (6, 7, 12):
                preemption.request()
        assert seen == expected
        assert [state["step"] for state in saved] == [7, 8, 13]
        other.load_state_dict(saved[1])
        assert [batch["x"].tolist() for batch in other] == expected[8:]


def test_what_the_function_raises_comes_out_of_the_loop() -> None:
    def save(state: Any) -> None:
        raise ValueError("no room")

    with ps.Loader(numbers().batch(BATCH)) as loader:
        loader.on_preempt(save, signals=()).request()
        with pytest.raises(ValueError, match="no room"):
            next(iter(loader))
        assert len(list(loader)) == ROWS // BATCH


def test_what_cannot_be_written_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "states"
    folder.mkdir()
    with ps.Loader(numbers().batch(BATCH)) as loader:
        preemption = loader.on_preempt(state_file=folder / "state.json", signals=())
        folder.rmdir()
        preemption.request()
        assert "name a file that can be written" in caplog.text
        assert len(list(loader)) == ROWS // BATCH


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"save": 3}, "pass a function"),
        ({"signals": ["SIGNONE"]}, "no signal of this system"),
        ({"signals": [1000]}, "no signal of this system"),
        ({"signals": ["SIGKILL"]}, "without asking it"),
        ({"state_file": "nowhere/state.json"}, "its folder is not there"),
    ],
)
def test_what_cannot_be_is_said_at_once(given: dict[str, Any], text: str) -> None:
    with ps.Loader(numbers().batch(BATCH)) as loader, pytest.raises(ps.PlanError, match=text):
        loader.on_preempt(**given)
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_ranks_have_files_of_their_own(tmp_path: Path) -> None:
    with ps.Loader(numbers().batch(BATCH), rank=1, world_size=2) as loader:
        with pytest.raises(ps.PlanError, match=r"every rank would write.*\{rank\}"):
            loader.on_preempt(state_file=tmp_path / "state.json", signals=())
        loader.on_preempt(state_file=tmp_path / "state-{rank}.json", signals=()).request()
    assert [path.name for path in tmp_path.iterdir()] == ["state-1.json"]


def test_other_threads_are_told_what_to_do() -> None:
    errors: list[Exception] = []

    def call() -> None:
        try:
            ps.Loader(numbers().batch(BATCH)).on_preempt()
        except ps.PlanError as error:
            errors.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    assert "call it there, or pass signals=()" in str(errors[0])


def test_every_case_is_tried() -> None:
    text = Path(__file__).read_text()
    cases = [
        name for name, value in vars(preempted).items()
        if getattr(value, "__module__", "") == preempted.__name__ and "folder" in getattr(value, "__annotations__", {}) and name != "main"
    ]  # fmt: skip
    assert [name for name in cases if f'"{name}"' not in text] == []
