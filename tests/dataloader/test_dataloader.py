"""The drop-in gives what PyTorch's own DataLoader gives, wherever batches are fetched, and goes on where it was."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
import warnings
from collections.abc import Callable
from itertools import count, islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    ConcatDataset,
    RandomSampler,
    SequentialSampler,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)
from torch.utils.data import DataLoader as TorchLoader

import penstock as ps
from penstock.core.errors import PlanError
from penstock.observe.run_file import each_snapshot
from penstock.torch import DataLoader, fetching
from penstock.torch.processes import Worker
from penstock.torch.tensors import digest_of
from support.dataloader_cases import (
    Counts,
    Custom,
    Draws,
    Endless,
    Exits,
    Fails,
    InProcess,
    Locked,
    OutOfRange,
    Pairs,
    Slow,
    Squares,
    Stateful,
    Stream,
    Together,
    as_generator,
    as_list,
    fetchers,
)

pytestmark = pytest.mark.filterwarnings("ignore:penstock. DataLoader. .* draws random numbers")
TENSORS = TensorDataset(torch.arange(100).float().reshape(50, 2), torch.arange(50))


def epochs(loader: Any, count: int = 2) -> list[bytes]:
    torch.manual_seed(3)
    random.seed(3)
    np.random.seed(3)
    return [digest_of(batch) for _ in range(count) for batch in loader]


def both(dataset: Callable[[], Any], **options: Any) -> tuple[list[bytes], list[bytes], torch.Tensor, torch.Tensor]:
    """What both give in two epochs, and what the training draws afterwards."""
    found = []
    for kind in (TorchLoader, DataLoader):
        given = {name: value() if isinstance(value, type) else value for name, value in options.items()}
        found += [epochs(kind(dataset(), **given)), torch.rand(2)]
    return found[0], found[2], found[1], found[3]


#: By what is tried: a dataset, and options.
SAME: dict[str, tuple[Callable[[], Any], dict[str, Any]]] = {
    "plain": (Squares, {"batch_size": 7}),
    "shuffled": (Squares, {"batch_size": 7, "shuffle": True}),
    "dropped": (Squares, {"batch_size": 7, "shuffle": True, "drop_last": True}),
    "one by one": (Squares, {}),
    "no batches": (Squares, {"batch_size": None}),
    "no batches, a sampler of batches": (lambda: TENSORS, {"batch_size": None, "sampler": BatchSampler(SequentialSampler(range(50)), 8, drop_last=False)}),
    "sampler": (Squares, {"batch_size": 4, "sampler": SubsetRandomSampler([*range(0, 50, 3)])}),
    "weights": (Squares, {"batch_size": 4, "sampler": WeightedRandomSampler([1.0, 2.0] * 25, 40)}),
    "replacement": (Squares, {"batch_size": 4, "sampler": RandomSampler(range(50), replacement=True, num_samples=70)}),
    "batch sampler": (Squares, {"batch_sampler": [[1, 2], [3], [4, 5, 6]]}),
    "batch sampler without a length": (Squares, {"batch_sampler": Endless}),
    "collate": (Squares, {"batch_size": 4, "collate_fn": as_list}),
    "lambda": (Squares, {"batch_size": 4, "collate_fn": lambda samples: len(samples) + 1}),
    "named tuples": (Pairs, {"batch_size": 4}),
    "getitems": (Together, {"batch_size": 4}),
    "list": (lambda: [*range(30)], {"batch_size": 4, "shuffle": True}),
    "arrays": (lambda: torch.arange(60).reshape(30, 2).numpy(), {"batch_size": 4}),
    "tensors": (lambda: TENSORS, {"batch_size": 8, "shuffle": True}),
    "subset": (lambda: Subset(TENSORS, [5, 3, 3, 40, -1]), {"batch_size": 2, "shuffle": True}),
    "concat": (lambda: ConcatDataset([TENSORS, Subset(TENSORS, [4, 2]), TENSORS]), {"batch_size": 9, "shuffle": True}),
    "concat of others": (lambda: ConcatDataset([Squares(3), Squares(4)]), {"batch_size": 2, "shuffle": True}),
    "iterable": (Stream, {"batch_size": 4}),
    "iterable, dropped": (Stream, {"batch_size": 4, "drop_last": True}),
    "iterable, one by one": (Stream, {"batch_size": None}),
    "empty": (lambda: Squares(0), {"batch_size": 4}),
    "slow": (Slow, {"batch_size": 8, "shuffle": True}),
}  # fmt: skip


@pytest.mark.parametrize("case", SAME)
def test_the_same_as_pytorch(case: str) -> None:
    dataset, options = SAME[case]
    theirs, ours, drawn, drawn_here = both(dataset, **options)
    assert ours == theirs
    assert torch.equal(drawn, drawn_here)
    with_generator = {**options, "generator": lambda: torch.Generator().manual_seed(8)}
    if case in ("shuffled", "tensors", "slow"):
        made = [
            epochs(kind(dataset(), **options | {"generator": with_generator["generator"]()}))
            for kind in (TorchLoader, DataLoader)
        ]
        assert made[0] == made[1]


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"persistent_workers": True}, {"in_order": False, "batch_size": 50}])
def test_the_same_workers_draw_the_same(options: dict[str, Any]) -> None:
    given = {"batch_size": 8, "shuffle": True, "num_workers": 2, **options}
    theirs, ours, drawn, drawn_here = both(Draws, **given)
    assert ours == theirs
    assert torch.equal(drawn, drawn_here)


def test_arguments_and_attributes_are_pytorchs() -> None:
    loader: Any = DataLoader(Squares(), 4, True, drop_last=True, pin_memory=False)
    theirs = TorchLoader(Squares(), 4, True, drop_last=True, pin_memory=False)
    assert isinstance(loader, TorchLoader)
    for name in ("batch_size", "num_workers", "drop_last", "pin_memory", "timeout", "prefetch_factor", "collate_fn"):
        assert getattr(loader, name) == getattr(theirs, name)
    assert type(loader.sampler) is type(theirs.sampler)
    assert len(loader) == len(theirs) == 12
    with pytest.raises(ValueError, match="mutually exclusive"):
        DataLoader(Squares(), shuffle=True, sampler=SequentialSampler(range(3)))
    with pytest.raises(ValueError, match="prefetch_factor"):
        DataLoader(Squares(), prefetch_factor=2)
    with pytest.raises(ValueError, match="attribute should not be set"):
        loader.batch_size = 5


@pytest.mark.slow
def test_draws_are_the_batchs_own() -> None:
    with pytest.warns(UserWarning, match="Draws draws random numbers"):
        first = epochs(DataLoader(Draws(), batch_size=8, shuffle=True))
    after = torch.rand(2)
    assert epochs(DataLoader(Draws(), batch_size=8, shuffle=True)) == first
    assert len({*first}) == len(first)
    epochs(TorchLoader(Slow(), batch_size=8, shuffle=True))
    assert torch.equal(torch.rand(2), after), "the training's numbers go on as if none had been drawn"
    theirs, exact = (epochs(loader) for loader in (TorchLoader(Draws(), 8), DataLoader(Draws(), 8, tune=False)))
    assert exact == theirs


# In processes


@pytest.mark.slow
@pytest.mark.usefixtures("at_once")
def test_processes_give_the_same() -> None:
    for dataset, options in (
        (Pairs, {"batch_size": 4, "shuffle": True}),
        (Together, {"batch_sampler": [[1, 2], [3], [4, 5, 6], [7], [8, 9]], "collate_fn": Custom}),
    ):
        loader = DataLoader(dataset(), **options)  # type: ignore[operator]
        torch.manual_seed(1)
        ours = [digest(batch) for batch in loader]
        assert "2 processes" in loader.explain(), loader.explain()
        torch.manual_seed(1)
        assert ours == [digest(batch) for batch in TorchLoader(dataset(), **options)]  # type: ignore[operator]
        loader.choice.close()


def digest(batch: Any) -> bytes:
    return digest_of(vars(batch) if isinstance(batch, Custom) else batch)


@pytest.mark.slow
@pytest.mark.usefixtures("at_once")
def test_processes_start_once_fetching_took_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loader that is used for less is not slowed by their start."""
    monkeypatch.setattr(fetching, "_SOON_S", 1e9)
    loader = DataLoader(Slow(), batch_size=2)
    list(loader)
    assert loader.choice.workers is None
    assert "once batches took 1e+09 s" in loader.explain(), loader.explain()
    monkeypatch.setattr(fetching, "_SOON_S", 1e-9)
    list(loader)
    assert "2 processes" in loader.explain(), loader.explain()
    loader.choice.close()


@pytest.mark.slow
@pytest.mark.usefixtures("at_once")
def test_processes_are_left_where_batches_are_waited_for_longer_than_they_take_here(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also where every second one comes at once, as two processes give them; and the batches stay the same."""
    answer, number = Worker.answer, count()

    def late(worker: Worker) -> Any:
        if next(number) % 2:
            time.sleep(0.2)
        return answer(worker)

    monkeypatch.setattr(fetching, "_MEASURED", 4)
    monkeypatch.setattr(Worker, "answer", late)
    loader = DataLoader(Slow(), batch_size=2)
    found = [digest_of(batch) for batch in loader]
    assert "waited for longer" in loader.explain(), loader.explain()
    assert found == [digest_of(batch) for batch in TorchLoader(Slow(), batch_size=2)]


@pytest.mark.slow
@pytest.mark.usefixtures("at_once")
def test_draws_are_the_same_in_processes_and_here(monkeypatch: pytest.MonkeyPatch) -> None:
    loader = DataLoader(Draws(), batch_size=4, shuffle=True)
    there = epochs(loader)
    assert "2 processes" in loader.explain()
    torch.manual_seed(4)
    iterator = iter(loader)
    taken = [digest_of(next(iterator)) for _ in range(5)]
    state = json.loads(json.dumps(loader.state_dict()))
    rest = [digest_of(batch) for batch in iterator]
    loader.choice.close()
    monkeypatch.setattr(fetching, "usable_cpus", lambda: 1)
    here = DataLoader(Draws(), batch_size=4, shuffle=True)
    assert epochs(here) == there
    assert "one CPU" in here.explain()
    resumed = DataLoader(Draws(), batch_size=4, shuffle=True)
    resumed.load_state_dict(state)
    assert [digest_of(batch) for batch in resumed] == rest
    assert len(taken) + len(rest) == len(here)


@pytest.mark.slow
@pytest.mark.usefixtures("at_once")
def test_what_stays_here() -> None:
    lock = threading.Lock()

    def locked(samples: list[Any]) -> int:
        with lock:
            return len(samples)

    for dataset, options, why in (
        (Counts(), {}, "change the dataset"),
        (InProcess(), {}, "another process makes another batch"),
        (Locked(), {}, "'lock' of the dataset cannot be sent"),
        (Slow(), {"collate_fn": locked}, "cannot be sent"),
        (Slow(), {"collate_fn": as_generator}, "cannot be"),
    ):
        loader = DataLoader(dataset, batch_size=5, **options)
        batches = list(loader)
        assert len(batches) == 10
        assert why in loader.explain(), loader.explain()
        if isinstance(dataset, Counts):
            assert dataset.fetched == 50


@pytest.mark.slow
@pytest.mark.usefixtures("at_once")
def test_a_dataset_that_changes_between_epochs() -> None:
    dataset = Slow()
    loader = DataLoader(dataset, batch_size=5)
    assert [batch["y"].tolist() for batch in loader][-1] == [index**2 for index in range(45, 50)]
    dataset.size = 20
    assert len(list(loader)) == 4
    assert "2 processes" in loader.explain()
    iterator, other = iter(loader), iter(loader)
    assert [next(one)["y"].tolist() for one in (iterator, other, iterator, other)] == [[0, 1, 4, 9, 16]] * 2 + [
        [25, 36, 49, 64, 81]
    ] * 2
    del iterator, other
    for _ in range(3):
        assert next(iter(loader))["y"].tolist() == [0, 1, 4, 9, 16]
    loader.choice.close()


@pytest.mark.slow
@pytest.mark.usefixtures("at_once")
def test_errors_come_in_their_place() -> None:
    for loader in (DataLoader(Fails(), batch_size=5), TorchLoader(Fails(), batch_size=5)):
        iterator, seen = iter(loader), list[Any]()
        with pytest.raises(KeyError, match="no such picture"):  # noqa: PT012
            for batch in iterator:
                seen.append(batch["y"])
        assert len(seen) == 6
        assert len(list(iterator)) == 3, "the next batches can be had"
        getattr(loader, "choice", fetching.FetchChoice()).close()


@pytest.mark.long
@pytest.mark.usefixtures("at_once")
def test_an_index_that_is_not_there() -> None:
    for kind in (DataLoader, TorchLoader):
        loader = kind(Squares(), batch_size=1, sampler=OutOfRange())
        with pytest.raises(IndexError, match="99"):
            list(loader)
        getattr(loader, "choice", fetching.FetchChoice()).close()


@pytest.mark.long
@pytest.mark.usefixtures("at_once")
def test_a_process_that_exits_is_told() -> None:
    loader = DataLoader(Exits(os.getpid()), batch_size=5)
    with pytest.raises(ps.ProcessError, match=r"exit status 5.*tune=False"):
        list(loader)


@pytest.mark.slow
@pytest.mark.usefixtures("at_once")
def test_a_process_that_is_killed_is_told() -> None:
    loader = DataLoader(Slow(), batch_size=5)
    iterator = iter(loader)
    list(islice(iterator, 4))
    for one in fetchers():
        one.send_signal(signal.SIGKILL)
    with pytest.raises(ps.ProcessError, match="SIGKILL"):
        list(iterator)


# State


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "case",
    [
        "shuffled",
        "weights",
        "batch sampler",
        "batch sampler without a length",
        "iterable",
        "tensors",
        "no batches",
        "stateful",
    ],
)
def test_it_goes_on_where_it_was(case: str, workers: int) -> None:
    dataset, options = (Squares, {"batch_size": 4}) if case == "stateful" else SAME[case]

    def loader() -> DataLoader[Any]:
        given = {name: value() if isinstance(value, type) else value for name, value in options.items()}
        return DataLoader(
            dataset(), num_workers=workers, **given, **({"sampler": Stateful()} if case == "stateful" else {})
        )

    torch.manual_seed(11)
    first = loader()
    list(first)
    iterator = iter(first)
    list(islice(iterator, 2))
    state = json.loads(json.dumps(first.state_dict()))
    assert state["batches"] == 2
    rest = [digest_of(batch) for batch in iterator]
    torch.manual_seed(77)
    drawn = torch.rand(1)
    torch.manual_seed(77)
    second = loader()
    second.load_state_dict(state)
    assert second.state_dict() == state
    assert [digest_of(batch) for batch in second] == rest
    if workers == 0:
        assert torch.equal(torch.rand(1), drawn), "the training's generator is left as it was"
    assert second.state_dict()["batches"] == 0
    assert len(list(second)) == len(rest) + 2


def test_states_that_are_none() -> None:
    loader = DataLoader(Squares(), batch_size=10)
    for state in (
        {},
        3,
        {"version": 1},
        {"version": 1, "batches": -1},
        {"version": 2, "batches": 1},
        {"version": 1, "batches": 6},
    ):
        with pytest.raises(ps.StateError):
            loader.load_state_dict(state)  # type: ignore[arg-type]
    assert loader.state_dict() == {"version": 1, "batches": 0}
    loader.load_state_dict(loader.state_dict())
    assert len(list(loader)) == 5


def test_explain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "_WORTH_S", 60.0)  # so that no batch is, however busy this machine is
    monkeypatch.setattr(fetching, "usable_cpus", lambda: 2)
    for loader, said in (
        (DataLoader(Stream()), "iterable"),
        (DataLoader(Squares(), num_workers=2), "PyTorch's 2 workers"),
        (DataLoader(Squares(), tune=False), "tune=False"),
    ):
        assert said in loader.explain()
    for dataset, said in ((TENSORS, "native plan"), (Squares(), "a batch takes")):
        loader = DataLoader(dataset, batch_size=2)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            list(loader)
        assert said in loader.explain()


def test_observing_is_refused_with_what_does_it() -> None:
    with pytest.raises(PlanError, match=r"observe= is for penstock\.Loader"):
        DataLoader([1, 2], observe=["jsonl:run.jsonl"])


def test_batches_for_pytorch_are_observed_as_others_are(tmp_path: Path) -> None:
    data = ps.from_arrays({"x": np.arange(64)}).batch(8)
    with ps.Loader(data, to="torch", observe=f"jsonl:{tmp_path}/run.jsonl") as loader:
        assert sum(int(batch["x"].sum()) for batch in loader) == 64 * 63 // 2
    last = [*each_snapshot(tmp_path / "run.jsonl")][-1]
    assert last["batches"] == 8
    assert last["stages"][-1]["name"] == "deliver"
