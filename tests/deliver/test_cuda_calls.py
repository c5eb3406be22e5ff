"""What a delivery to CUDA asks of the device, in which order and from which threads; no device is needed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from penstock.lower import context as lower
from penstock.order.steps.cursor import Position
from support.seams import lowered_of, runs_of
from support.shared import new_threads

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
delivery = pytest.importorskip("penstock.deliver.torch")
from support.fake_cuda import FakeCuda, FakeStream  # noqa: E402  # needs PyTorch

COLUMNS = 100


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> FakeCuda:
    return FakeCuda(monkeypatch)


def data(samples: int = 4000) -> ps.Dataset:
    ids = np.arange(samples)
    x = np.repeat(ids, COLUMNS).reshape(samples, COLUMNS).astype(np.float32)
    return ps.from_arrays({"id": ids, "x": x, "text": [str(i) for i in ids]}).shuffle(seed=1)


def column() -> torch.Tensor:
    return torch.arange(4.0)


def eventually(holds: Callable[[], bool]) -> bool:
    end = time.monotonic() + 60
    while not holds() and time.monotonic() < end:
        time.sleep(0.001)
    return holds()


def threads(before: set[threading.Thread]) -> list[str]:
    """Those of runs, but not of earlier tests' loaders; the event loop of async functions belongs to the process."""
    return [name for name in new_threads(before) if name.startswith("penstock-") and name != "penstock-async"]


def test_no_other_device_is_touched(cuda: FakeCuda) -> None:
    with ps.Loader(data().batch(500), to="torch", device="cuda:2", cpus=2) as loader:
        list(loader)
        loader.batch_at(0, 0)
        assert cuda.contexts == {2}
        cuda._exchange_device(1)
        loader.batch_at(0, 0)
    assert cuda.current_device() == 1, "the caller's thread goes on where it was"
    assert cuda.current_stream().number == 0
    assert cuda.current_stream(torch.device("cuda:2")).number == 0


@pytest.mark.parametrize("item_bytes", [1, 1 << 18])
def test_a_slot_is_not_used_again_before_its_copy_ended(
    cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch, item_bytes: int
) -> None:
    monkeypatch.setattr(lower, "ITEM_BYTES", item_bytes)
    with ps.Loader(data().batch(100), to="torch", device="cuda", cpus=2, prefetch=6) as loader:
        for epoch in range(5):
            for step, batch in enumerate(loader):
                ids = loader.sample_ids(epoch, step)
                assert np.array_equal(batch["id"], ids)
                assert (batch["x"].numpy() == ids[:, None]).all()
                assert batch["text"].to_pylist() == [str(i) for i in ids]
        (ring, _) = lowered_of(loader).slots
        assert ring.made_bytes < 5 * 4000 * COLUMNS * 4 / 2, "slots were used again"
        assert threading.current_thread().name not in cuda.host_waits, "the consumer waited for nothing"


def test_images_cross_as_bytes_and_a_kernel_follows_on_the_side_stream(cuda: FakeCuda) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (400, 8, 8, 3), np.uint8)
    ops = [ps.image.RandomHorizontalFlip(), ps.image.Normalize(ps.image.IMAGENET)]
    dataset = ps.from_arrays({"image": pixels}).shuffle(seed=1).transform(image=ops).batch(100)
    with ps.Loader(dataset, to="torch") as here, ps.Loader(dataset, to="torch", device="cuda:1", cpus=2) as there:
        assert "image: RandomHorizontalFlip, Normalize" in there.explain()
        for _ in range(2):
            for one, other in zip(here, there, strict=True):
                assert torch.equal(one["image"], other["image"])
        side = there._deliver._stream
        assert {stream for stream, _ in cuda.kernels} == {stream for stream, *_ in cuda.copies} == {side}
        assert {name.rstrip("01") for _, name in cuda.kernels} == {"penstock-deliver-"}
        assert cuda.contexts == {1}
        (ring, _) = lowered_of(there).slots
        assert ring.made_bytes < 4 * 400 * 8 * 8 * 3 * 4, "bytes lie in slots, not float32"


def test_a_failed_copy_keeps_what_those_that_began_read(cuda: FakeCuda) -> None:
    deliver = delivery.ToTorch("cuda")
    cuda.fail_at = 1
    with pytest.raises(RuntimeError, match="the copy failed") as failed:
        deliver.finish({"x": column(), "y": column()}, 4)
    assert len(cuda.copies) == len(cuda.pending(deliver._stream)) == 1
    assert len(deliver._in_flight) == 1
    assert not hasattr(failed.value, "__notes__")


def test_a_device_that_falls_behind_holds_few_items(cuda: FakeCuda) -> None:
    deliver = delivery.ToTorch("cuda")
    made = [deliver.finish({"x": column()}, 4) for _ in range(20)]
    assert len(deliver._in_flight) <= delivery._MOST_IN_FLIGHT + 1
    assert len(cuda.host_waits) >= 20 - delivery._MOST_IN_FLIGHT - 1
    deliver.receive(made[-1])
    assert made[-1]["x"].tolist() == column().tolist()


def test_batches_that_are_kept_take_no_pinned_memory(cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lower, "ITEM_BYTES", 1)
    with ps.Loader(data().batch(100), to="torch", device="cuda", cpus=2, prefetch=2) as loader:
        kept = [batch for _ in range(3) for batch in loader]
        made = sum(ring.made_bytes for ring in lowered_of(loader).slots)
        assert made < 16 * (1 << 16) < sum(batch["x"].nbytes for batch in kept) / 4
    for batch in kept:
        assert (batch["x"].numpy() == batch["id"].numpy()[:, None]).all()


def test_a_device_that_is_lost_says_so_and_hangs_nobody(cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch) -> None:
    class DeviceError(RuntimeError):
        pass

    monkeypatch.setattr(delivery, "_DeviceError", DeviceError)
    monkeypatch.setattr(lower, "ITEM_BYTES", 1)
    before = {*threading.enumerate()}
    with ps.Loader(data().batch(100), to="torch", device="cuda", cpus=2, prefetch=1) as loader:
        batches = iter(loader)
        next(batches)
        cuda.lost = DeviceError("the device fell off the bus")
        with pytest.raises(DeviceError) as failed:
            for _ in batches:
                pass
        assert any("start again from the last checkpoint" in note for note in failed.value.__notes__)
        assert loader.step < len(loader)
    assert eventually(lambda: threads(before) == [])


def test_copies_under_way_outlive_the_loader(cuda: FakeCuda) -> None:
    deliver = delivery.ToTorch("cuda")
    (made, kept) = deliver.finish({"x": column()}, 4), deliver._in_flight
    side = deliver._stream
    assert cuda.pending(side)
    del deliver
    assert cuda.pending(side) == []
    assert len(kept) == 0
    assert made["x"].tolist() == column().tolist()


def test_another_process_of_a_fork_is_told(cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch) -> None:
    deliver = delivery.ToTorch("cuda")
    deliver.finish({"x": column()}, 4)
    monkeypatch.setattr(delivery.os, "getpid", lambda: -1)
    with pytest.raises(ps.ProcessError, match="make the Loader in the child"):
        deliver.finish({"x": column()}, 4)
    before = len(cuda.host_waits)
    deliver._in_flight.wait()
    assert len(cuda.host_waits) == before, "a child asks the parent's driver nothing"
    monkeypatch.setattr(torch.cuda, "_is_in_bad_fork", lambda: True)
    with pytest.raises(ps.ProcessError, match="start it with the 'spawn' method"):
        delivery.ToTorch("cuda")


def test_a_device_error_says_that_it_may_be_of_earlier_work(cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch) -> None:
    class DeviceError(RuntimeError):
        pass

    monkeypatch.setattr(delivery, "_DeviceError", DeviceError)
    cuda.fail_at, cuda.error = 0, DeviceError("an illegal memory access was encountered")
    with pytest.raises(DeviceError) as failed:
        delivery.ToTorch("cuda").finish({"x": column()}, 4)
    assert "CUDA_LAUNCH_BLOCKING=1" in failed.value.__notes__[0]


@pytest.mark.parametrize("item_bytes", [1, 1 << 20])
def test_every_stream_that_a_batch_is_taken_on_is_told(
    cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch, item_bytes: int
) -> None:
    monkeypatch.setattr(lower, "ITEM_BYTES", item_bytes)
    device = torch.device("cuda", 0)
    streams = [FakeStream(device, number=number) for number in (100, 101, 100, 0, 101)]
    with ps.Loader(data().batch(100), to="torch", device=device) as loader:
        batches = iter(loader)
        for stream in streams:
            with torch.cuda.stream(stream):
                batch = next(batches)
            for name in ("id", "x"):
                assert (batch[name].untyped_storage().data_ptr(), stream) in cuda.used
            assert (stream, loader._deliver._stream) in cuda.waits
            assert (batch["x"].numpy() == batch["id"].numpy()[:, None]).all()
        batches.close()


def test_copies_begin_in_threads_of_the_loader_on_the_side_stream(cuda: FakeCuda) -> None:
    with ps.Loader(data().batch(4), to="torch", device="cuda", cpus=2, prefetch=2048) as loader:
        next(iter(loader))
        side = loader._deliver._stream
    assert side.number > 0
    assert {(stream, non_blocking) for stream, non_blocking, _ in cuda.copies} == {(side, True)}
    assert {name.rstrip("01") for _, _, name in cuda.copies} == {"penstock-deliver-"}


def test_waiting_for_a_copy_keeps_no_core_busy(cuda: FakeCuda) -> None:
    delivery.ToTorch("cuda").finish({"x": column()}, 4)
    assert cuda.events == [{"blocking": True}]
    assert cuda.host_waits == [threading.current_thread().name], "the finalizer's alone"


def test_copies_to_other_devices_block(cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "_device", torch.device)
    deliver = delivery.ToTorch("mps")
    text = pa.array(["a"])
    made = deliver.finish({"x": column(), "text": text}, 4)
    assert made["text"] is text
    assert [non_blocking for _, non_blocking, _ in cuda.copies] == [False]
    assert (cuda.events, deliver.new_memory, deliver.copies) == ([], None, True)


@pytest.mark.parametrize("prefetch", [None, 8])
def test_batches_on_the_device_are_few(cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch, prefetch: int | None) -> None:
    monkeypatch.setattr(lower, "ITEM_BYTES", 1)
    samples = ps.from_arrays({"x": np.zeros((4000, COLUMNS), np.float32)}).batch(100)
    with ps.Loader(samples, to="torch", device="cuda", cpus=2, prefetch=prefetch) as loader:
        batches = iter(loader)
        most = 0
        for _ in range(40):
            next(batches)
            most = max(most, cuda.alive)
        batches = iter(loader)
        held = next(batches)
        (run, _) = runs_of(loader)[0]
        before_copies, finished = run._channels[-2:]
        assert eventually(lambda: len(before_copies) == before_copies.capacity and len(finished) == finished.capacity)
        # Those that wait, one in the hands of each of two threads, and the one that is held.
        assert max(most, cuda.alive) <= 2 + 2 + 1
        assert finished.capacity <= 2 <= before_copies.capacity
        del held


def test_an_item_that_waits_holds_no_slot(cuda: FakeCuda) -> None:
    with ps.Loader(data().batch(500), to="torch", device="cuda") as loader:
        lowered = lowered_of(loader)
        item = next(lowered.work_from(Position(0)))
        for stage in lowered.stages:
            item = stage.work(item)
        ring = lowered.slots[0]
        loader._deliver.receive(item.columns)
        loader._deliver._in_flight.let_go()
        ring._take_back()
        assert ring.made_bytes
        assert not ring._lent
        assert item.size_bytes >= 500 * COLUMNS * 4


def test_pinned_memory_is_the_hosts_whatever_the_default_device_is(cuda: FakeCuda) -> None:
    with torch.device("meta"), ps.Loader(data().batch(500), to="torch", device="cuda") as loader:
        loader.batch_at(0, 0)
    assert cuda.pinned
    assert {str(options["device"]) for options in cuda.pinned} == {"cpu"}


def test_close_waits_for_copies_that_are_under_way(cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lower, "ITEM_BYTES", 1)
    before = {*threading.enumerate()}
    loader = ps.Loader(data().batch(500), to="torch", device="cuda", cpus=2)
    batches = iter(loader)
    batch = next(batches)
    ring = lowered_of(loader).slots[0]
    assert eventually(lambda: len(cuda.pending(loader._deliver._stream)) > 0)
    cuda.gate.clear()
    closing = threading.Thread(target=loader.close)
    closing.start()
    assert cuda.waiting.acquire(timeout=60)
    assert closing.is_alive()
    assert ring._lent, "the copies read from their slots"
    cuda.gate.set()
    closing.join(60)
    assert not closing.is_alive()
    assert cuda.pending(loader._deliver._stream) == []
    ring._take_back()
    assert not ring._lent
    assert (batch["x"].numpy() == batch["id"].numpy()[:, None]).all()
    assert eventually(lambda: threads(before) == [])
