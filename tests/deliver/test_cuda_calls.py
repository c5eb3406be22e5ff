"""What a delivery to CUDA asks of the device, in which order and from which threads; no device is needed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from penstock.engine.lower import plan as lower
from support.seams import lowered_of

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
    end = time.monotonic() + 10
    while not holds() and time.monotonic() < end:
        time.sleep(0.001)
    return holds()


def threads() -> list[str]:
    """Those of runs; the event loop of async functions belongs to the process."""
    names = [thread.name for thread in threading.enumerate()]
    return [name for name in names if name.startswith("penstock-") and name != "penstock-async"]


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
    with ps.Loader(data().batch(100), to="torch", device="cuda", cpus=2) as loader:
        for epoch in range(3):
            for step, batch in enumerate(loader):
                ids = loader.sample_ids(epoch, step)
                assert np.array_equal(batch["id"], ids)
                assert (batch["x"].numpy() == ids[:, None]).all()
                assert batch["text"].to_pylist() == [str(i) for i in ids]
    assert cuda.pending(loader._deliver._stream) == []
    (ring, _) = lowered_of(loader).slots
    assert ring.made_bytes < 3 * 4000 * COLUMNS * 4 / 2, "slots were used again"


def test_a_failed_copy_waits_for_those_that_began(cuda: FakeCuda) -> None:
    deliver = delivery.ToTorch("cuda")
    cuda.fail_at = 1
    with pytest.raises(RuntimeError, match="the copy failed") as failed:
        deliver.finish({"x": column(), "y": column()}, 4)
    assert len(cuda.copies) == 1
    assert cuda.pending(deliver._stream) == []
    assert not hasattr(failed.value, "__notes__")


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
        batches.close()


def test_two_threads_copy_on_the_side_stream(cuda: FakeCuda) -> None:
    cuda.gate.clear()
    with ps.Loader(data().batch(4), to="torch", device="cuda", cpus=2, prefetch=2048) as loader:
        first = threading.Thread(target=lambda: next(iter(loader)))
        first.start()
        assert all(cuda.waiting.acquire(timeout=10) for _ in range(2)), "two are under way at once"
        cuda.gate.set()
        first.join(10)
        side = loader._deliver._stream
    assert side.number > 0
    assert {(stream, non_blocking) for stream, non_blocking, _ in cuda.copies} == {(side, True)}
    assert {name for _, _, name in cuda.copies} == {"penstock-deliver-0", "penstock-deliver-1"}


def test_waiting_for_a_copy_keeps_no_core_busy(cuda: FakeCuda) -> None:
    delivery.ToTorch("cuda").finish({"x": column()}, 4)
    assert cuda.events == [{"blocking": True}]


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
        (run, _) = loader._runs[0]
        before_copies, finished = run._channels[-2:]
        assert eventually(lambda: len(before_copies) == before_copies.capacity and len(finished) == finished.capacity)
        # Those that wait, one in the hands of each of two threads, and the one that is held.
        assert max(most, cuda.alive) <= 2 + 2 + 1
        assert finished.capacity <= 2 <= before_copies.capacity
        del held


def test_an_item_that_waits_holds_no_slot(cuda: FakeCuda) -> None:
    with ps.Loader(data().batch(500), to="torch", device="cuda") as loader:
        lowered = lowered_of(loader)
        item = next(lowered.work_from(ps.loader.Position(0)))
        for stage in lowered.stages:
            item = stage.work(item)
        ring = lowered.slots[0]
        ring._take_back()
        assert ring.made_bytes
        assert not ring._lent
        assert item.size_bytes >= 500 * COLUMNS * 4


def test_pinned_memory_is_the_hosts_whatever_the_default_device_is(cuda: FakeCuda) -> None:
    with torch.device("meta"), ps.Loader(data().batch(500), to="torch", device="cuda") as loader:
        loader.batch_at(0, 0)
    assert cuda.pinned
    assert {str(options["device"]) for options in cuda.pinned} == {"cpu"}


def test_close_waits_for_a_copy_that_is_under_way(cuda: FakeCuda) -> None:
    cuda.gate.clear()
    loader = ps.Loader(data().batch(500), to="torch", device="cuda", cpus=2)
    run, _ = loader._run()
    assert cuda.waiting.acquire(timeout=10)
    closing = threading.Thread(target=loader.close)
    closing.start()
    assert run._stop.wait(10)
    ring = lowered_of(loader).slots[0]
    assert closing.is_alive()
    assert ring._lent, "the copy reads from its slot"
    cuda.gate.set()
    closing.join(10)
    assert not closing.is_alive()
    assert cuda.pending(loader._deliver._stream) == []
    assert threads() == []
