"""What only a GPU can show: real copies, streams, events and kernels. `make gpu` runs these; elsewhere they are skipped."""

from __future__ import annotations

import gc
import os
from typing import Any

import numpy as np
import pytest

import penstock as ps

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

#: "cpu" tries the tests themselves, where that makes sense.
DEVICE = os.environ.get("PENSTOCK_GPU_TESTS_ON", "cuda")
pytestmark = pytest.mark.skipif(DEVICE == "cuda" and not torch.cuda.is_available(), reason="no CUDA device")

ROWS, SIDE = 512, 64
image = ps.image


def pixels() -> ps.Dataset:
    made = np.random.default_rng(0).integers(0, 256, (ROWS, SIDE, SIDE, 3), np.uint8)
    return ps.from_arrays({"image": made, "label": np.arange(ROWS)}).shuffle(seed=1)


def numbers(rows: int = 4096, columns: int = 4096) -> ps.Dataset:
    return ps.from_arrays({"x": np.repeat(np.arange(rows), columns).reshape(rows, columns).astype(np.float32)})


CHAINS: dict[str, list[Any]] = {
    "flips": [image.RandomHorizontalFlip(), image.RandomVerticalFlip(), image.Normalize(image.IMAGENET)],
    "half": [image.RandomHorizontalFlip(), image.Normalize(image.IMAGENET), image.ToDtype("float16")],
    "bfloat16": [image.Normalize(image.IMAGENET), image.ToDtype("bfloat16"), image.ToLayout("NHWC")],
    "NHWC": [image.RandomHorizontalFlip(), image.Normalize(image.IMAGENET), image.ToLayout("NHWC")],
    "crop": [image.RandomResizedCrop((33, 47)), image.RandomHorizontalFlip(), image.Normalize(image.IMAGENET)],
    "crop to NHWC": [image.CenterCrop(40), image.RandomVerticalFlip(), image.Normalize(0.5, 0.25), image.ToLayout("NHWC")],
}  # fmt: skip


@pytest.mark.parametrize("ops", CHAINS.values(), ids=CHAINS.keys())
def test_batches_are_those_of_the_cpu(ops: list[Any]) -> None:
    plan = pixels().transform(image=ops).batch(100)
    with ps.Loader(plan, to="torch") as here, ps.Loader(plan, to="torch", device=DEVICE) as there:
        for _ in range(2):
            for one, other in zip(here, there, strict=True):
                assert other["image"].device.type == DEVICE
                assert other["image"].dtype == one["image"].dtype
                assert torch.equal(one["image"], other["image"].cpu())
                assert torch.equal(one["label"], other["label"].cpu())
        if DEVICE == "cuda":
            assert there._deliver._pixels._fused is not None, "by one kernel"  # type: ignore[attr-defined]


def test_slots_are_not_used_again_before_their_copies_are_done() -> None:
    with ps.Loader(numbers().shuffle(seed=1).batch(256), to="torch", device=DEVICE, prefetch=2) as loader:
        wrong = torch.zeros((), device=DEVICE)
        for _ in range(10):
            for batch in loader:
                wrong += (batch["x"] != batch["x"][:, :1]).sum()
        assert float(wrong) == 0


@pytest.mark.skipif(DEVICE != "cuda", reason="no CUDA device")
def test_nothing_waits_in_the_training_thread() -> None:
    """PyTorch raises for what waits for the device: of any thread, so that copies of the loader's own threads count too."""
    plan = pixels().transform(image=CHAINS["crop"]).batch(64)
    with ps.Loader(plan, to="torch", device="cuda") as loader:
        list(loader)  # compiles the kernel
        total = torch.zeros((), device="cuda")
        torch.cuda.set_sync_debug_mode("error")
        try:
            for batch in loader:
                total += batch["image"].sum()
        finally:
            torch.cuda.set_sync_debug_mode("default")
        assert torch.isfinite(total)


@pytest.mark.skipif(DEVICE != "cuda", reason="no CUDA device")
def test_other_streams_take_batches() -> None:
    streams = [torch.cuda.Stream() for _ in range(3)]
    sums, kept = [], []
    with ps.Loader(numbers(1024).batch(64), to="torch", device="cuda") as loader:
        for step, batch in enumerate(loader):
            with torch.cuda.stream(streams[step % 3]):
                torch.cuda.current_stream().wait_stream(torch.cuda.default_stream())
                sums.append(batch["x"][:, 0].sum())
            kept.append(batch)
    torch.cuda.synchronize()
    assert [float(one) for one in sums] == [sum(range(step * 64, step * 64 + 64)) for step in range(16)]
    assert all(float(batch["x"][0, 0]) == 64 * step for step, batch in enumerate(kept)), (
        "kept batches stay as they were"
    )


@pytest.mark.skipif(DEVICE != "cuda", reason="no CUDA device")
def test_kept_batches_take_no_pinned_memory() -> None:
    with ps.Loader(numbers().batch(256), to="torch", device="cuda", prefetch=2) as loader:
        kept = list(loader)
        made = sum(slots.made_bytes for slots in loader._lowered.slots)
        assert len(kept) * kept[0]["x"].nbytes > 0
        assert made < 16 * kept[0]["x"].nbytes


@pytest.mark.skipif(DEVICE != "cuda", reason="no CUDA device")
def test_memory_of_the_device_runs_out_with_an_error() -> None:
    fraction = (torch.cuda.memory_reserved() + 256e6) / torch.cuda.mem_get_info()[1]
    torch.cuda.set_per_process_memory_fraction(min(1.0, fraction))
    try:
        loader = ps.Loader(numbers().repeat(50).batch(256), to="torch", device="cuda")
        with loader, pytest.raises(torch.cuda.OutOfMemoryError):
            list(loader)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
        gc.collect()
        torch.cuda.empty_cache()


@pytest.mark.skipif(DEVICE != "cuda", reason="no CUDA device")
def test_a_forked_child_is_told() -> None:
    with ps.Loader(pixels().batch(64), to="torch", device="cuda") as loader:
        next(iter(loader))
        child = os.fork()
        if child == 0:
            status = 1
            try:
                ps.Loader(pixels().batch(64), to="torch", device="cuda")
            except ps.ProcessError:
                status = 0
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.skipif(DEVICE == "cuda" and torch.cuda.device_count() < 2, reason="needs two CUDA devices")
def test_a_second_device() -> None:
    device = "cuda:1" if DEVICE == "cuda" else DEVICE
    with ps.Loader(pixels().transform(image=CHAINS["flips"]).batch(64), to="torch", device=device) as loader:
        assert {str(batch["image"].device) for batch in loader} == {device}


def test_cupy_takes_a_batch_without_a_copy() -> None:
    cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
    with ps.Loader(numbers(256).batch(64), to="torch", device=DEVICE) as loader:
        batch = next(iter(loader))
        view = cupy.from_dlpack(batch["x"])
        assert view.data.ptr == batch["x"].data_ptr()
        assert float(view[:, 0].sum()) == sum(range(64))
