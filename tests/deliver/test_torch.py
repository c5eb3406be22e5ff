"""Tensors: on the CPU without a copy, on CUDA through pinned memory."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from penstock.deliver import find_ranks

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
delivery = pytest.importorskip("penstock.deliver.torch")

cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


def data(samples: int = 4000) -> ps.Dataset:
    ids = np.arange(samples)
    return ps.from_arrays(
        {"id": ids, "x": np.repeat(ids, 100).reshape(samples, 100).astype(np.float32), "text": [str(i) for i in ids]}
    )


def test_the_tensor_lies_where_the_kernel_wrote() -> None:
    places: list[int] = []

    def note(batch):
        places.append(batch["x"].ctypes.data)
        return batch

    with ps.Loader(data(64).map(note).batch(64), to="torch", cpus=1) as loader:
        batch = next(iter(loader))
        assert batch["x"].data_ptr() in places
        assert isinstance(batch["text"], pa.Array)
        assert batch["x"].dtype == torch.float32
        assert batch["id"].dtype == torch.int64


def test_slots_are_used_again_but_never_under_a_tensor() -> None:
    with ps.Loader(data().shuffle(seed=1).batch(500), to="torch", prefetch=1) as loader:
        kept = []
        for _ in range(3):
            kept += [(batch["x"], batch["id"].clone()) for batch in loader]
        for x, ids in kept:
            assert torch.equal(x[:, 7], ids.float())
        kept.clear()
        del x
        made = sum(slots.made_bytes for slots in loader._lowered.slots)
        for _ in range(3):
            for _ in loader:
                pass
        again = sum(slots.made_bytes for slots in loader._lowered.slots)
        assert again - made < 500 * 100 * 4, "not one large slot more"


@pytest.mark.parametrize(
    "dtype", ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex64"]
)
def test_dtypes(dtype: str) -> None:
    column = np.arange(8).astype(dtype)
    (batch,) = ps.Loader(ps.from_arrays({"x": column, "none": np.zeros((8, 0))}).batch(8), to="torch")
    assert str(batch["x"].dtype) == f"torch.{dtype}"
    assert batch["x"].tolist() == column.tolist()
    assert batch["none"].shape == (8, 0)


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a[::-1],
        lambda a: a[:, ::-1],
        lambda a: np.broadcast_to(a[:1], a.shape),
        lambda a: a.T,
        lambda a: a.astype(">f4"),
    ],
)
def test_what_users_functions_return(view) -> None:
    base = np.arange(64, dtype=np.float32).reshape(8, 8)
    (batch,) = ps.Loader(ps.from_arrays({"x": np.arange(8)}).map(lambda _: {"x": view(base)}).batch(8), to="torch")
    assert batch["x"].tolist() == view(base).tolist()


def test_a_dtype_that_torch_lacks() -> None:
    with pytest.raises(ps.PlanError, match="PyTorch has no dtype like NumPy's"):
        list(ps.Loader(ps.from_arrays({"x": np.zeros(4, dtype=np.longdouble)}).batch(4), to="torch"))


def test_bfloat16() -> None:
    pixels = np.arange(4 * 6 * 6 * 3, dtype=np.uint8).reshape(4, 6, 6, 3)
    dataset = ps.from_arrays({"image": pixels}).transform(image=[ps.image.ToDtype("bfloat16")]).batch(4)
    (batch,) = ps.Loader(dataset, to="torch")
    assert batch["image"].dtype == torch.bfloat16
    wanted = torch.from_numpy(pixels).permute(0, 3, 1, 2).to(torch.bfloat16)
    assert torch.equal(batch["image"], wanted)


def test_no_such_device() -> None:
    if not torch.cuda.is_available():
        with pytest.raises(ps.PlanError, match="sees no CUDA device"):
            ps.Loader(data().batch(4), to="torch", device="cuda")


def test_ranks_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "RANK", "2")
    monkeypatch.setitem(os.environ, "WORLD_SIZE", "4")
    assert find_ranks(None, None) == (2, 4)
    assert find_ranks(0, 1) == (0, 1)
    loader = ps.Loader(data().batch(8), to="torch")
    assert (loader.rank, loader.world_size, loader.batch_size) == (2, 4, 2)


@cuda
def test_cuda() -> None:
    with ps.Loader(data().shuffle(seed=1).batch(500), to="torch", device="cuda") as loader:
        for _ in range(5):
            for batch in loader:
                assert batch["x"].is_cuda
                assert torch.equal(batch["x"][:, 7], batch["id"].float())


@cuda
def test_cuda_batches_stay_while_the_consumer_is_behind() -> None:
    with ps.Loader(data(8000).shuffle(seed=1).batch(500), to="torch", device="cuda") as loader:
        kept = []
        for _ in range(4):
            for batch in loader:
                torch.cuda._sleep(2_000_000)
                kept.append((batch["x"] * 2, batch["id"].clone()))
                del batch
        for x, ids in kept:
            assert torch.equal(x[:, 7], ids.float() * 2)


class OnHost(torch.Tensor):
    """A tensor that notes what would be done with it on a device."""

    told: list[str]

    def to(self, *args: Any, **kwargs: Any) -> Any:
        self.told.append(f"copy to {args[0]}, non_blocking={kwargs['non_blocking']}")
        return self

    def record_stream(self, stream: Any) -> None:
        self.told.append(f"used on {stream}")


def test_what_a_copy_to_cuda_does_in_which_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a device: only the calls are seen, not what they do."""
    told: list[str] = []

    class Event:
        def synchronize(self) -> None:
            told.append("wait for the event")

    class Stream:
        def __init__(self, device: Any) -> None:
            told.append(f"a stream of {device}")

        def record_event(self) -> Event:
            told.append("an event")
            return Event()

    @contextlib.contextmanager
    def stream(entered: Any) -> Iterator[None]:
        assert isinstance(entered, Stream)
        told.append("on the side stream:")
        yield
        told.append("back")

    for name, found in {
        "is_available": lambda: True,
        "current_device": lambda: 3,
        "current_stream": lambda device: f"the consumer's stream of {device}",
        "Stream": Stream,
        "stream": stream,
    }.items():
        monkeypatch.setattr(torch.cuda, name, found)
    deliver = delivery.ToTorch("cuda")
    column = torch.zeros(4).as_subclass(OnHost)
    column.told = told
    text = pa.array(["a"])
    moved = deliver.finish({"x": column, "text": text})
    assert deliver.receive(moved)["text"] is text
    assert told == [
        "a stream of cuda:3",
        "on the side stream:",
        "copy to cuda:3, non_blocking=True",
        "an event",
        "back",
        "wait for the event",
        "used on the consumer's stream of cuda:3",
    ]
