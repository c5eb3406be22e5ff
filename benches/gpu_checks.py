"""What must hold on a device, each as a function that raises where it does not. tests/gpu and `make gpu` run these; no pytest is needed."""

from __future__ import annotations

import gc
import importlib.util
import itertools
import os
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

import penstock as ps
from gpu_device import Cuda

image = ps.image


def pixels(rows: int, channels: int = 3, layout: str = "NHWC", side: int = 24) -> ps.Dataset:
    made = np.random.default_rng(0).integers(0, 256, (rows, side, side + 5, channels), np.uint8)
    made = made if layout == "NHWC" else np.ascontiguousarray(made.transpose(0, 3, 1, 2))
    return ps.from_arrays({"image": made, "label": np.arange(rows)}).shuffle(seed=1)


def numbers(rows: int, columns: int) -> ps.Dataset:
    return ps.from_arrays({"x": np.repeat(np.arange(rows), columns).reshape(rows, columns).astype(np.float32)})


def assert_same(plan: ps.Dataset, gpu: Cuda, **options: Any) -> None:
    """Two epochs on the device are those on the CPU."""
    with (
        ps.Loader(plan, to="torch", **options) as here,
        ps.Loader(plan, to="torch", device=gpu.device, **options) as there,
    ):
        for _ in range(gpu.size(2, 1)):
            for one, other in zip(here, there, strict=True):
                for name, column in one.items():
                    _assert_equal(name, column, other[name])


def _assert_equal(name: str, one: Any, other: Any) -> None:
    if isinstance(one, list):
        for first, second in zip(one, other, strict=True):
            _assert_equal(name, first, second)
    elif isinstance(one, torch.Tensor):
        assert one.dtype == other.dtype, f"{name}: {other.dtype} in place of {one.dtype}"
        parts = (one.values(), other.values()) if one.is_nested else (one, other)
        assert torch.equal(parts[0], parts[1].cpu()), f"{name}: other numbers than on the CPU"
    else:
        assert one.equals(other), name


FLIPS: tuple[tuple[Any, ...], ...] = (
    (),
    (image.RandomHorizontalFlip(),),
    (image.RandomHorizontalFlip(), image.RandomVerticalFlip()),
)


def chains() -> Iterator[tuple[str, ps.Dataset]]:
    """Each end of a chain that the device does, with every dtype, layout, number of channels and flips."""
    dtypes = ("float32", "float16", "bfloat16")
    for dtype, channels, layout, flips in itertools.product(dtypes, (1, 3), ("NCHW", "NHWC"), FLIPS):
        normalize = image.Normalize(image.IMAGENET) if channels == 3 else image.Normalize(0.5, 0.25)
        ops = [*flips, normalize, image.ToDtype(dtype), image.ToLayout(layout)]  # type: ignore[arg-type]
        yield f"{dtype}, {channels} channels, {layout}, {len(flips)} flips", pixels(48, channels).transform(image=ops)
    crop = [image.RandomResizedCrop((13, 17)), *FLIPS[1], image.Normalize(image.IMAGENET)]
    tables = [image.RandomInvert(), image.RandomSolarize(100.0), *FLIPS[2]]
    erasing = [image.RandomErasing(0.7), image.RandomErasing(value=(1.0, 2.5, -3.0))]
    yield "tables and erasing", pixels(48).transform(image=[*tables, image.Normalize(image.IMAGENET), *erasing])
    yield "a crop before", pixels(48).transform(image=crop)
    yield "scaled", pixels(48).transform(image=[image.ToDtype("float32", scale=True)])


def every_op_and_dtype_gives_what_the_cpu_gives(gpu: Cuda) -> None:
    _try_chains(gpu, gpu.size(1, 5))


def _try_chains(gpu: Cuda, each: int) -> None:
    for name, plan in itertools.islice(chains(), 0, None, each):
        try:
            assert_same(plan.batch(20), gpu)
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from None


def mixes_give_what_the_cpu_gives(gpu: Cuda) -> None:
    """MixUp and CutMix behind the kernel, in both layouts, and a step that is short."""
    by_row = [op(num_classes=96, per_row=True) for op in (image.MixUp, image.CutMix)]
    every = [image.RandomChoice(by_row), *by_row, image.MixUp(num_classes=96), image.CutMix(num_classes=96)]
    for op, layout in itertools.product(every[: gpu.size(5, 1)], ("NCHW", "NHWC")):
        ops = [*FLIPS[1], image.Normalize(image.IMAGENET), image.RandomErasing(), image.ToLayout(layout)]  # type: ignore[arg-type]
        plan = pixels(96).transform(image=ops).batch(20).transform(op)
        with ps.Loader(plan, to="torch", device=gpu.device) as there:
            assert f"ToLayout, {type(op).__name__}" in there.explain(), "the CPU mixes"
        assert_same(plan, gpu)


def without_triton_too(gpu: Cuda) -> None:
    with without("penstock.deliver.triton_pixels"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says so
        _try_chains(gpu, gpu.size(5, 15))


@contextmanager
def without(module: str) -> Iterator[None]:
    """The module cannot be imported meanwhile."""
    import sys

    before = sys.modules.get(module)
    sys.modules[module] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        if before is None:
            del sys.modules[module]
        else:
            sys.modules[module] = before


def columns_of_every_dtype_are_those_of_the_cpu(gpu: Cuda) -> None:
    kinds = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64")
    columns: dict[str, Any] = {kind: np.arange(200).astype(kind) for kind in kinds}
    columns |= {"large": np.random.default_rng(0).random((200, 3000)), "text": [str(row) for row in range(200)]}
    plan = ps.from_arrays(columns).shuffle(seed=1)
    assert_same(plan.batch(32), gpu)
    assert_same(plan.map(lambda batch: {**batch, "made": batch["large"] * 2, "one": batch["int16"] + 1}).batch(32), gpu)


def ragged_columns_are_those_of_the_cpu(gpu: Cuda) -> None:
    rows = [np.arange(size % 7 + 1, dtype=np.int32) for size in range(64)]
    plan = ps.from_arrays({"tokens": rows, "list": rows}).batch(16)
    form = gpu.size("nested", "list")  # what nested tensors import takes some seconds
    assert_same(plan, gpu, convert={"tokens": form, "list": "list"})


def channels_last_is_no_copy(gpu: Cuda) -> None:
    ops = [image.RandomHorizontalFlip(), image.Normalize(image.IMAGENET), image.ToLayout("NHWC")]
    plan = pixels(48).transform(image=ops).batch(16)
    assert_same(plan, gpu, convert={"image": "channels_last"})


def an_image_of_75_million_numbers(gpu: Cuda) -> None:
    side = gpu.size(5000, 50)
    made = np.random.default_rng(0).integers(0, 256, (1, side, side, 3), np.uint8)
    assert_same(ps.from_arrays({"image": made}).transform(image=[image.Normalize(image.IMAGENET)]).batch(1), gpu)


def slots_are_not_used_again_before_their_copies_are_done(gpu: Cuda) -> None:
    plan = numbers(gpu.size(4096, 64), gpu.size(4096, 200)).shuffle(seed=1).batch(gpu.size(256, 16))
    with ps.Loader(plan, to="torch", device=gpu.device, prefetch=1) as loader:
        wrong = gpu.zeros()
        for _ in range(gpu.size(20, 2)):
            for step, batch in enumerate(loader):
                if step % 4 == 0:
                    gpu.sleep()
                wrong += (batch["x"] != batch["x"][:, :1]).sum()
        assert float(wrong) == 0, f"{int(wrong)} numbers of other batches"


def nothing_waits_in_the_training_thread(gpu: Cuda) -> None:
    plan = pixels(512).transform(image=[*FLIPS[1], image.Normalize(image.IMAGENET)]).batch(64)
    with ps.Loader(plan, to="torch", device=gpu.device) as loader:
        list(loader)  # compiles the kernel
        total = gpu.zeros()
        with gpu.no_waiting():
            for _ in range(gpu.size(7, 1)):
                for batch in loader:
                    total += batch["image"].float().sum()
        assert torch.isfinite(total)


def other_streams_take_batches(gpu: Cuda) -> None:
    streams, sums, kept = gpu.streams(3), [], []
    with ps.Loader(numbers(1024, gpu.size(4096, 100)).batch(64), to="torch", device=gpu.device) as loader:
        for step, batch in enumerate(loader):
            with torch.cuda.stream(streams[step % 3]):
                sums.append(batch["x"][:, 0].sum())
            kept.append(batch)
    gpu.synchronize()
    assert [float(one) for one in sums] == [sum(range(step * 64, step * 64 + 64)) for step in range(16)]
    assert all(float(batch["x"][0, 0]) == 64 * step for step, batch in enumerate(kept)), "kept batches stay"


def kept_batches_take_no_pinned_memory(gpu: Cuda) -> None:
    plan = numbers(gpu.size(16_384, 8192), 4096).batch(256)
    with ps.Loader(plan, to="torch", device=gpu.device, prefetch=2) as loader:
        kept = list(loader)
        made = sum(slots.made_bytes for slots in loader._rank.share.lowered.slots)  # noqa: SLF001  # nothing public counts it
        assert made < 24 * kept[0]["x"].nbytes, f"{made / kept[0]['x'].nbytes:.1f} batches' bytes of {len(kept)}"


def memory_runs_out_with_an_error_and_a_loader_goes_on(gpu: Cuda) -> None:
    plan = numbers(gpu.size(4096, 160), 4096).repeat(50).batch(gpu.size(256, 40))
    with ps.Loader(plan, to="torch", device=gpu.device) as loader:
        batches, kept = iter(loader), []
        with gpu.little_memory(gpu.size(256_000_000, 8_000_000)):
            try:
                kept.extend(batches)
            except torch.cuda.OutOfMemoryError:
                pass
            else:
                raise AssertionError("no error")
            failed_at = loader.step
            kept.clear()
        gc.collect()
        loader.load_state_dict({**loader.state_dict(), "step": failed_at})
        assert float(next(iter(loader))["x"][0, 0]) == failed_at * gpu.size(256, 40) % gpu.size(4096, 160)


def a_forked_child_is_told(gpu: Cuda) -> None:
    if gpu.is_dry:
        return  # a stand-in works in a child
    with ps.Loader(pixels(256).batch(64), to="torch", device=gpu.device) as loader, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python's, of forks beside threads
        next(iter(loader))
        child = os.fork()
        if child == 0:
            status = 1
            try:
                for make in (
                    lambda: ps.Loader(pixels(256).batch(64), to="torch", device=gpu.device),
                    lambda: next(iter(loader)),
                ):
                    try:
                        make()
                    except ps.ProcessError:
                        status = 0
                    else:
                        status = 1
                        break
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert len(list(loader)) == 4, "the parent goes on"


def each_device_is_alone(gpu: Cuda) -> None:
    if gpu.is_dry or torch.cuda.device_count() < 2:
        return
    with ps.Loader(pixels(256).batch(64), to="torch", device="cuda:1") as loader:
        assert {str(batch["image"].device) for batch in loader} == {"cuda:1"}


def loaders_leave_no_memory_and_no_threads(gpu: Cuda) -> None:
    plan = numbers(gpu.size(1024, 64), gpu.size(4096, 100)).batch(gpu.size(64, 16))
    reserved = []
    for _ in range(gpu.size(40, 4)):
        with ps.Loader(plan, to="torch", device=gpu.device) as loader:
            list(loader)
        reserved.append(gpu.memory()["reserved"])
    assert reserved[-1] <= 2 * reserved[0] + (1 << 21), (
        f"{reserved[0]:,} bytes reserved after one loader, {reserved[-1]:,} after all"
    )
    end = time.monotonic() + 5
    while (
        left := [one.name for one in threading.enumerate() if one.name.startswith("penstock-deliver")]
    ) and time.monotonic() < end:
        time.sleep(0.01)
    assert not left, left


def a_graph_is_captured_while_batches_are_made(gpu: Cuda) -> None:
    """And replayed, in both modes."""
    plan = numbers(gpu.size(4096, 256), gpu.size(1024, 100)).batch(16)
    with ps.Loader(plan, to="torch", device=gpu.device) as loader:
        batches = iter(loader)
        for thread_local in (False, True):
            static, out = next(batches)["x"].clone(), gpu.zeros()
            gpu.synchronize()
            replay = gpu.graph(lambda out=out, static=static: out.copy_(static.sum()), thread_local=thread_local)
            for _ in range(gpu.size(40, 2)):
                batch = next(batches)["x"]
                static.copy_(batch)
                replay()
                assert (
                    float(out) == float(batch.double().sum())
                    or abs(float(out) / float(batch.double().sum()) - 1) < 1e-4
                )


def figures_of_the_gpu_are_those_of_a_gpu_at_work(gpu: Cuda) -> None:
    """What NVML says while one matrix after another is multiplied: a kernel runs, the memory is at least what is held, power flows. Counters (GPM) are shares, where there are any."""
    from penstock.observe.gpu import gpus_now

    if gpu.is_dry or importlib.util.find_spec("pynvml") is None:
        return  # tests/observe/test_gpu.py has a library that is none; without the package there are no figures
    matrix = torch.randn(8192, 8192, device=gpu.device, dtype=torch.bfloat16)
    found, asked_s = [], []
    end = time.monotonic() + 4
    while time.monotonic() < end:
        for _ in range(20):
            matrix = torch.nn.functional.normalize(matrix @ matrix)
        gpu.synchronize()
        began_s = time.perf_counter()
        found.append(gpus_now())
        asked_s.append(time.perf_counter() - began_s)
    held = [one for one in found[-1] if one.memory_bytes >= matrix.nbytes]
    assert held, f"no GPU with the memory that is held: {found[-1]}"
    last = held[0]
    assert last.memory_bytes <= last.memory_limit_bytes, last
    assert last.kernel_time is None or last.kernel_time > 0.5, last
    assert last.power_w is None or 30 < last.power_w < 2000, last
    for share in (last.sm, last.tensor):
        assert share is None or 0.05 < share <= 1, last
    print(
        f"{last}; the first call took {1000 * asked_s[0]:.1f} ms, half of the others {1000 * sorted(asked_s[1:])[len(asked_s) // 2]:.3f} ms"
    )


CHECKS: dict[str, Callable[[Cuda], None]] = {
    check.__name__: check
    for check in (
        every_op_and_dtype_gives_what_the_cpu_gives,
        mixes_give_what_the_cpu_gives,
        without_triton_too,
        columns_of_every_dtype_are_those_of_the_cpu,
        ragged_columns_are_those_of_the_cpu,
        channels_last_is_no_copy,
        an_image_of_75_million_numbers,
        slots_are_not_used_again_before_their_copies_are_done,
        nothing_waits_in_the_training_thread,
        other_streams_take_batches,
        kept_batches_take_no_pinned_memory,
        loaders_leave_no_memory_and_no_threads,
        a_graph_is_captured_while_batches_are_made,
        memory_runs_out_with_an_error_and_a_loader_goes_on,
        a_forked_child_is_told,
        each_device_is_alone,
        figures_of_the_gpu_are_those_of_a_gpu_at_work,
    )
}
