"""Functions that misbehave: each is an error that names verb, function and step, or works as documented; never a hang, never other rows."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import penstock as ps

Function = Callable[[dict[str, Any]], Any]

ROWS, BATCH, STEPS = 40, 4, 10
#: The first row of step 5, at which functions that behave at first begin to misbehave.
LATER = 20


def data() -> ps.Dataset:
    return ps.from_arrays({"id": np.arange(ROWS), "x": np.ones((ROWS, 3), np.float32)})


def map_rows(function: Function) -> ps.Dataset:
    return data().map_rows(function).batch(BATCH)


VERBS: dict[str, Callable[[Function], ps.Dataset]] = {
    "map": lambda function: data().batch(BATCH).map(function),
    "map_rows": map_rows,
    "flat_map": lambda function: data().flat_map(function, rows=BATCH).batch(BATCH, steps=STEPS),
    "filter": lambda function: data().filter(function).batch(BATCH, steps=STEPS),
}


def run(plan: ps.Dataset, **options: Any) -> list[dict[str, Any]]:
    with ps.Loader(plan, **options) as loader:
        return [{name: np.array(column) for name, column in batch.items()} for batch in loader]


def later(then: Function) -> Function:
    def misbehaves(batch: dict[str, Any]) -> Any:
        return then(batch) if np.ravel(batch["id"])[0] >= LATER else batch

    return misbehaves


# What they return

#: By the name of the case: a function, and what is said of it by each verb; "" where it works.
RETURNED: dict[str, tuple[Function, dict[str, str]]] = {
    "None": (lambda _: None, dict.fromkeys(("map", "map_rows", "flat_map"), "returned NoneType; it must return a dict") | {"filter": "returned None for"}),
    "a list": (lambda batch: [batch], dict.fromkeys(("map", "map_rows", "flat_map"), "returned list; it must return a dict") | {"filter": "return a mask"}),
    "a generator": (lambda batch: (batch for _ in "a"), dict.fromkeys(("map", "map_rows", "flat_map"), "returned generator; it must") | {"filter": "return a mask"}),
    "a column of a generator": (lambda _: {"id": (i for i in range(4))}, dict.fromkeys(("map", "map_rows", "flat_map"), "column 'id' is generator")),
    "no columns": (lambda _: {}, dict.fromkeys(("map", "map_rows"), "returned no columns") | {"flat_map": "none came out", "filter": "return a mask"}),
    "objects": (lambda batch: {"id": np.full(np.shape(batch["id"]), None)}, dict.fromkeys(("map", "map_rows", "flat_map"), "dtype object")),
    "an array of no axes": (lambda _: {"id": np.array(3)}, dict.fromkeys(("map", "flat_map"), r"column 'id' is an array of dtype int64 and shape \(\)") | {"map_rows": ""}),
    "numbers for names": (lambda batch: {3: batch["id"]}, dict.fromkeys(("map", "map_rows", "flat_map"), "a column is named 3; name columns by text")),
    "masked values": (lambda batch: {"id": np.ma.masked_greater(batch["id"], -1)}, dict.fromkeys(("map", "map_rows", "flat_map"), "column 'id' is a masked array; fill what is masked")),
    "dates": (lambda batch: {"id": np.asarray(batch["id"]).astype("datetime64[s]")}, dict.fromkeys(("map", "map_rows", "flat_map"), "dtype datetime64")),
    "fewer rows later": (later(lambda batch: {name: column[:-1] for name, column in batch.items()}), {"map": "column 'id' has 3 rows, the batch 4", "flat_map": ""}),
    "other columns later": (later(lambda batch: {"y": batch["x"]}), {"map": "", "map_rows": "", "flat_map": "return the same columns"}),
    "another dtype later": (later(lambda batch: {**batch, "x": batch["x"].astype("f8")}), {"map": "", "map_rows": "", "flat_map": "return the same columns"}),
    "another shape later": (later(lambda batch: {**batch, "x": batch["x"][..., :2]}), {"map": "", "map_rows": "", "flat_map": "return the same columns"}),
    "views": (lambda batch: {"id": batch["id"], "x": batch["x"][..., ::-1], "y": batch["x"].T.T}, dict.fromkeys(("map", "map_rows", "flat_map"), "")),
    "without a column": (lambda batch: (batch.pop("x"), batch)[1], dict.fromkeys(("map", "map_rows", "flat_map"), "")),
    "a float mask": (lambda batch: np.ones(np.size(batch["id"])), {"filter": "return a mask"}),
    "a short mask": (lambda batch: np.ones(np.size(batch["id"]) - 1, bool), {"filter": "return a mask"}),
}  # fmt: skip


@pytest.mark.parametrize(("case", "verb"), [(case, verb) for case, (_, said) in RETURNED.items() for verb in said])
def test_what_a_function_returns(case: str, verb: str) -> None:
    function, said = RETURNED[case]
    if not said[verb]:
        assert len(run(VERBS[verb](function))) == STEPS
        return
    with pytest.raises((ps.PlanError, ps.DataError), match=said[verb]) as caught:
        run(VERBS[verb](function))
    assert str(caught.value).startswith(f"{verb}(")
    assert "epoch 0, step" in caught.value.__notes__[-1]


# What they raise


class NoText(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


class TwoArguments(Exception):
    """Cannot be made again from its `args`, so that a pickle of it does not load."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(one + two)


def recurses(batch: Any) -> Any:
    """Without an end. No garbage is collected meanwhile: what other tests left could not be torn down at that depth."""
    gc.disable()
    try:
        return deeper(batch)
    finally:
        gc.enable()


def deeper(batch: Any) -> Any:
    return deeper(batch)


def raising(kind: Any) -> Function:
    def raises(_: Any) -> Any:
        raise kind()

    return raises


RAISED: dict[str, tuple[Function, type[BaseException]]] = {
    "GeneratorExit": (raising(GeneratorExit), GeneratorExit),
    "KeyboardInterrupt": (raising(KeyboardInterrupt), KeyboardInterrupt),
    "MemoryError": (raising(MemoryError), MemoryError),
    "no text": (raising(NoText), NoText),
    "no pickle": (raising(lambda: TwoArguments(1, 2)), TwoArguments),
    "a group": (raising(lambda: ExceptionGroup("several", [ValueError(1)])), ExceptionGroup),
    "without an end": (recurses, RecursionError),
    "sys.exit": (lambda _: sys.exit(3), SystemExit),
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("case", RAISED)
def test_their_own_exceptions_come_with_the_place(case: str, verb: str) -> None:
    function, kind = RAISED[case]
    with pytest.raises(kind) as caught:
        run(VERBS[verb](function))
    note = caught.value.__notes__[0]
    assert verb in note
    assert function.__name__ in note
    assert "epoch 0, step 0" in note


@pytest.mark.parametrize("verb", VERBS)
def test_stop_iteration_does_not_end_the_pass_silently(verb: str) -> None:
    with pytest.raises(ps.PlanError, match="raised StopIteration, which would end the loop over batches") as caught:
        run(VERBS[verb](lambda _: next(iter(()))))
    assert str(caught.value).startswith(verb)
    assert isinstance(caught.value.__cause__, StopIteration)


class Departing:
    """Raises when it is gone."""

    def __del__(self) -> None:
        raise RuntimeError("not like this")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_what_raises_in_del_is_pythons_to_tell() -> None:
    def makes(batch: dict[str, Any]) -> dict[str, Any]:
        Departing()
        return batch

    assert len(run(VERBS["map"](makes))) == STEPS
    gc.collect()


# What they change


def plus_one(batch: dict[str, Any]) -> dict[str, Any]:
    batch["x"] += 1
    return batch


def test_input_that_is_changed_in_place_is_theirs() -> None:
    ones = np.ones((ROWS, 3), np.float32)
    plan = ps.from_arrays({"x": ones}).batch(BATCH).map(plus_one).map(plus_one)
    for _ in range(2):
        assert {float(value) for batch in run(plan) for value in batch["x"].ravel()} == {3.0}
    assert (ones == 1).all()


@pytest.mark.parametrize("columns", [None, ["x"]])
def test_what_a_filter_changes_in_place_is_its_own(columns: list[str] | None) -> None:
    """The rows that stay come as they were, whichever columns the function gets."""

    def above_mean(batch: dict[str, Any]) -> Any:
        batch["x"] -= 7
        return batch["x"] > 0

    plan = ps.from_arrays({"x": np.arange(16.0)}).filter(above_mean, columns=columns).batch(8, steps=1, lanes=1)
    assert run(plan)[0]["x"].tolist() == [*range(8, 16)]


#: A library whose code says nothing of the generators that it draws from until it is called.
_library = ModuleType("library")
exec("import numpy as np\ndef noise(rows): return np.random.rand(rows)", vars(_library))


class AddsNoise:
    """Adds random numbers in place. That it draws is found when it is first called."""

    def __init__(self) -> None:
        self.draw = [_library.noise]

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        batch["x"] += self.draw[0](len(batch["x"]))
        return batch


@pytest.mark.filterwarnings("ignore:penstock. map AddsNoise")
def test_random_numbers_that_are_added_in_place_are_added_once() -> None:
    def plan() -> ps.Dataset:
        return ps.from_arrays({"x": np.zeros(ROWS)}).batch(BATCH).map(AddsNoise())

    whole = run(plan())
    assert 0 < max(batch["x"].max() for batch in whole) <= 1
    for step in (0, 3, 9):
        with ps.Loader(plan()) as loader:
            assert (loader.batch_at(0, step)["x"] == whole[step]["x"]).all()


@pytest.mark.parametrize("on_error", ["skip", "substitute"])
@pytest.mark.filterwarnings("ignore:penstock. a bad sample")
def test_rows_changed_in_place_before_a_bad_one_are_changed_once(on_error: Any) -> None:
    def changes(row: dict[str, Any]) -> dict[str, Any]:
        row["x"] += 1
        if row["id"] == 6:
            raise ps.DataError("a bad row")
        return row

    plan = map_rows(changes)
    with pytest.warns(UserWarning, match="bad row"):
        found = run(plan, on_error=on_error)
    assert {float(value) for batch in found for value in batch["x"].ravel()} == {2.0}


# What they do besides


def test_loaders_within_a_function() -> None:
    wanted = [batch["id"].tolist() for batch in run(data().batch(BATCH))]

    def reads(batch: dict[str, Any]) -> dict[str, Any]:
        with ps.Loader(data().shuffle(seed=1).batch(BATCH), memory="8MB") as inner:
            rows = sum(len(one["id"]) for one in inner)
            assert (inner.batch_at(1, 2)["id"] == inner.batch_at(1, 2)["id"]).all()
        return {**batch, "rows": np.full(len(batch["id"]), rows)}

    found = run(data().batch(BATCH).map(reads))
    assert [batch["id"].tolist() for batch in found] == wanted
    assert {int(rows) for batch in found for rows in batch["rows"]} == {ROWS}


def test_its_own_batch_at_within_a_function() -> None:
    def asks(batch: dict[str, Any]) -> dict[str, Any]:
        if not asked and batch["id"][0] == LATER:
            asked.append(0)
            asked.append(int(loader.batch_at(0, 1)["id"][0]))
        return batch

    asked: list[int] = []
    loader = ps.Loader(data().batch(BATCH).map(asks))
    assert [batch["id"][0] for batch in loader] == [*range(0, ROWS, BATCH)]
    assert asked == [0, BATCH]
    loader.close()


def test_its_own_loader_closed_within_a_function() -> None:
    def closes(batch: dict[str, Any]) -> dict[str, Any]:
        if batch["id"][0] == LATER:
            loader.close()
        return batch

    loader = ps.Loader(data().batch(BATCH).map(closes))
    with pytest.raises(ps.ProcessError, match="the loader was closed while a batch was awaited"):  # noqa: PT012
        for _ in range(100):  # it may close what nobody waits for
            list(loader)
    loader.close()


def test_threads_and_text_within_a_function(capsys: pytest.CaptureFixture[str]) -> None:
    def starts(batch: dict[str, Any]) -> dict[str, Any]:
        found: list[int] = []
        thread = threading.Thread(target=lambda: found.append(int(batch["id"].sum())))
        thread.start()
        thread.join()
        print(found[0])
        return {**batch, "sum": np.full(len(batch["id"]), found[0])}

    assert all((batch["sum"] == batch["id"].sum()).all() for batch in run(data().batch(BATCH).map(starts), epochs=1))
    assert len(capsys.readouterr().out.split()) == STEPS + 1, "the first batch is made twice"


CHILD = """
import os, sys, tempfile
import numpy as np
import penstock as ps

def forks(batch):
    child = os.fork()
    if child == 0:
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    return batch

def moves(batch):
    os.chdir("/")
    return batch

os.chdir(sys.argv[1])
for number in range(3):
    with open(f"{number}.jsonl", "w") as file:
        file.writelines(f'{{"id": {100 * number + row}}}\\n' for row in range(100))
for function in (forks, moves):
    plan = ps.read("*.jsonl").batch(10).map(function)
    with ps.Loader(plan) as loader:
        for _ in range(2):
            assert [int(i) for batch in loader for i in batch["id"]] == list(range(300))

def grows(batch):
    return {"x": np.repeat(batch["id"], 200_000)[:: 200_000], "y": np.zeros((len(batch["id"]), 1_000_000), np.uint8)}

with ps.Loader(ps.from_arrays({"id": np.arange(40)}).batch(4).map(grows), memory="1MB") as loader:
    assert sum(len(batch["x"]) for batch in loader) == 40
print("done")
"""


@pytest.mark.slow
def test_functions_that_fork_move_and_outgrow_the_budget(tmp_path: Any) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(CHILD), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
        env=os.environ,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "done\n"


@pytest.mark.parametrize("verb", ["map", "map_rows"])
def test_loaders_with_functions_within_a_function(verb: str) -> None:
    """Calls that are watched for random draws run one at a time; those within one do not wait for it."""

    def reads(batch: dict[str, Any]) -> dict[str, Any]:
        with ps.Loader(getattr(data(), verb)(lambda one: {"id": one["id"] * 2}).batch(BATCH)) as inner:
            assert sum(int(one["id"].sum()) for one in inner) == ROWS * (ROWS - 1)
            inner.batch_at(0, 1)
        return batch

    assert len(run(data().batch(BATCH).map(reads))) == STEPS
