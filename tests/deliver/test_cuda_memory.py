"""How much of a device's memory a loader takes, and what copies to it read from; no device is needed."""

from __future__ import annotations

import gc
import threading
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.lower import context as lower
from promises.test_kept_arrays import WAYS
from support.seams import lowered_of

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
delivery = pytest.importorskip("penstock.deliver.torch")
from support.fake_cuda import FakeCuda, FakeStream  # noqa: E402  # needs PyTorch

COLUMNS, ROWS = 300, 100
BATCH_BYTES = ROWS * COLUMNS * 4


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> FakeCuda:
    monkeypatch.setattr(lower, "ITEM_BYTES", 1)
    return FakeCuda(monkeypatch)


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch) -> FakeCuda:
    monkeypatch.setattr(lower, "ITEM_BYTES", 1)
    return FakeCuda(monkeypatch, late=True)


def numbers(steps: int = 40) -> ps.Dataset:
    ids = np.arange(steps * ROWS)
    return ps.from_arrays({"x": np.repeat(ids, COLUMNS).reshape(-1, COLUMNS).astype(np.float32)})


def test_a_training_that_runs_ahead_of_its_device_does_not_fill_it(late: FakeCuda) -> None:
    """The device does nothing until the loader waits for it: without that, every batch of the epoch would stay there."""
    sums: list[float] = []
    with ps.Loader(numbers(80).batch(ROWS), to="torch", device="cuda", cpus=2) as loader:
        for batch in loader:
            seen = late.memory.seen(batch["x"])
            late.launch(lambda seen=seen: sums.append(float(seen()[:, 0].sum())))
            del batch, seen
        assert late.memory.reserved_bytes <= 14 * BATCH_BYTES
        assert threading.current_thread().name not in late.host_waits, "the training's thread waited for nothing"
        late.do(late.pending(late.current_stream()))
    assert sums == [sum(range(step * ROWS, (step + 1) * ROWS)) for step in range(80)], "and no batch was written over"


def test_loaders_share_a_stream_and_the_memory_of_those_that_are_gone(cuda: FakeCuda) -> None:
    """PyTorch keeps freed memory by stream."""
    for number in range(12):
        with ps.Loader(numbers(6).batch(ROWS), to="torch", device="cuda", cpus=2) as loader:
            assert len(list(loader)) == 6
        if not number:
            first = cuda.memory.reserved_bytes
    assert FakeStream.made == 1
    assert cuda.memory.reserved_bytes <= 2 * first
    with ps.Loader(numbers(6).batch(ROWS), to="torch", device="cuda:1") as loader:
        next(iter(loader))
    assert FakeStream.made == 2, "one a device"


def test_a_later_stream_waits_for_its_item_and_for_no_other_loader(
    cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lower, "ITEM_BYTES", 4 * BATCH_BYTES)
    stream = FakeStream(torch.device("cuda", 0), number=9)
    with ps.Loader(numbers(8).batch(ROWS), to="torch", device="cuda", cpus=1) as loader:
        batches = iter(loader)
        next(batches)
        copied = loader._deliver._received.before
        with torch.cuda.stream(stream):
            batch = next(batches)
        assert (stream, loader._deliver._stream) in cuda.waits
        assert cuda.is_done(copied)
        assert float(batch["x"][0, 0]) == ROWS


def test_every_copy_is_from_pinned_memory(cuda: FakeCuda) -> None:
    """Results of functions, small columns and flags too."""
    pixels = np.random.default_rng(0).integers(0, 256, (600, 8, 8, 3), np.uint8)

    def add(batch: dict[str, Any]) -> dict[str, Any]:
        return {
            **batch,
            "made": np.tile(batch["label"][:, None], (1, 900)).astype(np.float64),
            "one": batch["label"] % 2 == 0,
        }

    plan = ps.from_arrays({"image": pixels, "label": np.arange(600)}).shuffle(seed=1).map(add)
    ops = [ps.image.RandomHorizontalFlip(), ps.image.Normalize(ps.image.IMAGENET)]
    plan = plan.transform(image=ops).batch(50)
    with ps.Loader(plan, to="torch", cpus=2) as here, ps.Loader(plan, to="torch", device="cuda", cpus=2) as there:
        for one, other in zip(here, there, strict=True):
            for name, column in one.items():
                assert column.dtype == other[name].dtype
                assert torch.equal(column, other[name]), name
    pageable = [size for size, is_pinned in cuda.sources if not is_pinned]
    assert sum(pageable) <= 24, "scale and bias, once"


def test_small_columns_travel_together(cuda: FakeCuda) -> None:
    kinds = (np.bool_, np.uint8, np.int16, np.float16, np.int32, np.float32, np.int64, np.float64)
    columns = {
        f"{kind.__name__}{number}": (np.arange(600) + number).astype(kind) for kind in kinds for number in range(5)
    }
    plan = ps.from_arrays({**columns, "empty": np.zeros((600, 0), np.int32)}).shuffle(seed=1).batch(50)
    with ps.Loader(plan, to="torch") as here, ps.Loader(plan, to="torch", device="cuda", cpus=2) as there:
        for one, other in zip(here, there, strict=True):
            assert {name: (column.dtype, column.shape) for name, column in one.items()} == {
                name: (column.dtype, column.shape) for name, column in other.items()
            }
            assert all(torch.equal(column, other[name]) for name, column in one.items())
        other["float320"] += 1
        assert other["int320"]._version == 0, "what is written into one column is not written into another"
    assert len(cuda.copies) <= 2 * (12 + 4), "of forty columns and one without bytes"


def test_axes_stay_in_the_order_in_which_they_lie(cuda: FakeCuda) -> None:
    def turn(batch: dict[str, Any]) -> dict[str, Any]:
        return {"x": np.ascontiguousarray(batch["x"].reshape(-1, 15, 20, 1).repeat(8, 3)).transpose(0, 3, 1, 2)}

    with ps.Loader(numbers(2).map(turn).batch(ROWS), to="torch", device="cuda") as loader:
        batch = next(iter(loader))
        assert batch["x"].is_contiguous(memory_format=torch.channels_last)
        assert float(batch["x"][7, 3, 4, 5]) == 7


def test_slots_are_free_before_the_kernel_ran(late: FakeCuda) -> None:
    """It comes behind what the training already asked for; bytes were copied long before."""
    pixels = np.zeros((4, 8, 8, 3), np.uint8)
    plan = ps.from_arrays({"image": pixels}).transform(image=[ps.image.Normalize(ps.image.IMAGENET)]).batch(4)
    with ps.Loader(plan, to="torch", device="cuda") as loader:
        loader.batch_at(0, 0)
        deliver = loader._deliver
        ((copied, _),) = deliver._in_flight._held
        late.do(copied.before)
        assert late.kernels
        assert late.pending(deliver._stream), "the kernel is still to come"
        assert copied.query()


def test_a_lost_device_is_not_taken_for_a_lack_of_memory(cuda: FakeCuda, recwarn: pytest.WarningsRecorder) -> None:
    class DeviceError(RuntimeError):
        pass

    cuda.no_pinned = DeviceError("CUDA error: unspecified launch failure")
    with ps.Loader(numbers(2).batch(ROWS), to="torch", device="cuda") as loader, pytest.raises(DeviceError):
        next(iter(loader))
    assert not [str(one.message) for one in recwarn if "pinned" in str(one.message)]


def test_where_no_memory_can_be_pinned_batches_come_all_the_same(cuda: FakeCuda) -> None:
    cuda.no_pinned = RuntimeError("CUDA error: out of memory")
    with (
        ps.Loader(numbers(2).batch(ROWS), to="torch", device="cuda") as loader,
        pytest.warns(UserWarning, match="no more memory could be pinned"),
    ):
        assert [float(batch["x"][1, 1]) for batch in loader] == [1, ROWS + 1]


def test_many_steps_of_an_item_are_not_cut_at_once(cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lower, "ITEM_BYTES", 1 << 20)
    cut: list[int] = []
    split = torch.Tensor.unsafe_split

    def counting(tensor: Any, rows: int) -> Any:
        found = split(tensor, rows)
        cut.append(len(found))
        return found

    monkeypatch.setattr(torch.Tensor, "unsafe_split", counting)
    with ps.Loader(ps.from_arrays({"x": np.arange(2000)}).batch(2), to="torch", device="cuda") as loader:
        assert [int(batch["x"][1]) for batch in loader] == list(range(1, 2000, 2))
        assert lowered_of(loader).steps_per_item > 100
    assert max(cut) <= 64


@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_keep_a_part_of_a_batch_keeps_its_memory(way: str, cuda: FakeCuda) -> None:
    """The device's memory is given again as the allocator gives it: at once, to the next copies of the loader's stream."""
    kept = []
    with ps.Loader(numbers(12).batch(ROWS), to="torch", device="cuda", cpus=2) as loader:
        for _ in range(2):
            for batch in loader:
                array = batch.pop("x").numpy()
                thing, read = WAYS[way](array)
                kept.append((thing, read, read(thing)))
                del array, batch
                if len(kept) > 6:
                    kept.pop(0)
                    if way == "a cycle":
                        gc.collect()
                assert all(read(thing) == before for thing, read, before in kept)
        made = cuda.memory.reserved_bytes
    assert made < (6 + 10) * BATCH_BYTES + (1 << 16), "and what is let go of is used again"


def test_converted_columns_leave_images_to_the_device(cuda: FakeCuda) -> None:
    """channels_last turns axes behind the kernel; another column's dtype does not matter."""
    pixels = np.random.default_rng(0).integers(0, 256, (200, 16, 12, 3), np.uint8)
    ops = [ps.image.RandomHorizontalFlip(), ps.image.Normalize(ps.image.IMAGENET), ps.image.ToLayout("NHWC")]
    plan = ps.from_arrays({"image": pixels, "label": np.arange(200)}).shuffle(seed=1).transform(image=ops).batch(50)
    options: Any = {"to": "torch", "convert": {"image": "channels_last", "label": "float64"}}
    with ps.Loader(plan, **options) as here, ps.Loader(plan, **options, device="cuda", cpus=2) as there:
        assert "image: RandomHorizontalFlip, Normalize, ToLayout (" in there.explain()
        for one, other in zip(here, there, strict=True):
            assert one["image"].stride() == other["image"].stride()
            assert torch.equal(one["image"], other["image"])
            assert torch.equal(one["label"], other["label"])
            assert one["label"].dtype == other["label"].dtype == torch.float64
    assert sum(size for size, _ in cuda.sources) < 3 * pixels.nbytes, (
        "bytes of an epoch and of what is read ahead; floats are four times as many"
    )


def test_an_image_that_the_host_converts_stays_there(cuda: FakeCuda) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (100, 4, 4, 3), np.uint8)
    ops = [ps.image.Normalize(ps.image.IMAGENET), ps.image.ToDtype("float16")]
    plan = ps.from_arrays({"image": pixels}).transform(image=ops).batch(50)
    options: Any = {"to": "torch", "convert": {"image": "float32"}}
    with ps.Loader(plan, **options) as here, ps.Loader(plan, **options, device="cuda") as there:
        assert "on the device" not in there.explain()
        for one, other in zip(here, there, strict=True):
            assert torch.equal(one["image"], other["image"])
