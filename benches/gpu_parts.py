"""The parts of `make gpu`, each a function from a device to figures; run in a process of its own: python benches/gpu_parts.py NAME --data FOLDER.

The last line that it prints is JSON. What a part cannot measure is None, never 0.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import subprocess
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent))
from gpu_process import is_installed  # which lies beside this

Figures = dict[str, Any]
CORES = (1, 2, 4, 8, 16)


class Part(NamedTuple):
    """run: from device and arguments to figures. limit_s: how long it may take. needs: packages without which it is left out."""

    run: Callable[[Any, argparse.Namespace], Figures]
    limit_s: float
    needs: tuple[str, ...] = ()
    options: tuple[tuple[str, Any], ...] = ()


def kernel(gpu: Any, _: argparse.Namespace) -> Figures:
    """Which kernel images get, and how fast it writes: seconds of one batch after the other."""
    import numpy as np
    import torch

    from gpu_checks import image, ps
    from penstock.core.columns.pixel_ops import PixelOps
    from penstock.deliver.torch_pixels import affine_of, expression, tables_of

    made = np.zeros((8, 32, 32, 3), np.uint8)
    with ps.Loader(
        ps.from_arrays({"image": made}).transform(image=[image.Normalize(image.IMAGENET)]).batch(8),
        to="torch",
        device=gpu.device,
    ) as loader:
        list(loader)
        name = loader._deliver.kernel  # noqa: SLF001
    functions = {"Triton": None if gpu.is_dry else _triton(), "PyTorch": expression}
    found: Figures = {"kernel": name, "us_per_image": {}}
    pixels = torch.zeros((gpu.size(256, 2), 224, 224, 3), dtype=torch.uint8, device=gpu.model_device)
    for dtype, layout in (("float32", "NHWC"), ("float32", "NCHW"), ("bfloat16", "NHWC"), ("float16", "NCHW")):
        ops = PixelOps(dtype=dtype, scale=(0.5,) * 3, bias=(0.0,) * 3, layout_from="NHWC", layout_to=layout)  # type: ignore[arg-type]
        constants = [made.to(gpu.model_device) for made in (affine_of(ops), tables_of(ops))]
        for called, function in functions.items():
            if function is not None:
                seconds = gpu.seconds(functools.partial(function, pixels, None, None, ops, *constants))
                us = None if seconds is None else seconds * 1e6 / len(pixels)
                found["us_per_image"][f"{called}, {dtype}, {layout}"] = us
    return found


def _triton() -> Any:
    """The kernel as `PixelKernel` calls it; None without Triton."""
    try:
        from penstock.deliver.triton_pixels import fused
    except ImportError:
        return None
    return fused


def check(gpu: Any, asked: argparse.Namespace) -> Figures:
    """One of `gpu_checks`: it returns where that holds."""
    from gpu_checks import CHECKS

    began_at = time.perf_counter()
    CHECKS[asked.check](gpu)
    return {"holds": True, "seconds": time.perf_counter() - began_at}


def checks(gpu: Any, asked: argparse.Namespace) -> Figures:
    """Several of them, a line each; nothing more after one that fails, since the device may be lost."""
    for name in asked.check.split(","):
        found = attempt(check, gpu, argparse.Namespace(check=name))
        print(json.dumps({"check": name, **found}), flush=True)
        if "failed" in found:
            break
    return {}


def trained(gpu: Any, asked: argparse.Namespace) -> Figures:
    """A model trained from one loader, beside the same on a batch that stays on the device."""
    from gpu_side import trained as train

    return train(gpu, asked)


def alone(gpu: Any, asked: argparse.Namespace) -> Figures:
    """The loader with nobody who trains, beside what the bus carries from pinned memory."""
    from gpu_side import loader_of

    began_at = time.perf_counter()
    with loader_of(gpu, asked) as loader:
        first = next(iter(loader))
        first_batch_s = time.perf_counter() - began_at

        images_per_s = _rate_alone(gpu, loader, asked)
        report = loader.report()
    row_bytes = first["image"].nbytes / len(first["image"])
    return {
        "images_per_s": images_per_s,
        "delivered_gb_per_s": images_per_s * row_bytes / 1e9,
        "first_batch_s": first_batch_s,
        "pinned_copy_gb_per_s": gpu.copy_gb_per_s(),
        "report": report,
    }


def long_run(gpu: Any, asked: argparse.Namespace) -> Figures:
    """Memory and threads over 1,000 steps: after a tenth of them, and at the end."""
    from gpu_side import loader_of

    steps, seen, asked.batch = gpu.size(1000, 20), [], min(asked.batch, 64)
    with loader_of(gpu, asked) as loader:
        batches = iter(loader)
        for step in range(steps):
            next(batches)
            if step + 1 in (steps // 10, steps):
                gpu.synchronize()
                seen.append(
                    {"step": step + 1, **gpu.memory(), "rss": _rss_bytes(), "threads": threading.active_count()}
                )
        batches.close()
    return {"after": seen}


def ahead(gpu: Any, asked: argparse.Namespace) -> Figures:
    """A training that queues 300 slow steps and waits for none: the device's memory must not grow with them."""
    from gpu_checks import numbers, ps

    steps, seen = gpu.size(300, 10), []
    plan = numbers(gpu.size(4096, 64), gpu.size(16_384, 100)).repeat(1000).batch(gpu.size(256, 16))
    with ps.Loader(plan, to="torch", device=gpu.device) as loader:
        total = gpu.zeros()
        for step, batch in enumerate(loader, 1):
            gpu.sleep()
            total += batch["x"].sum()
            if step in (steps // 10, steps):
                seen.append({"step": step, **gpu.memory()})
            if step == steps:
                break
        gpu.synchronize()
    assert seen[-1]["reserved"] <= 1.5 * seen[0]["reserved"] + (1 << 26), seen
    return {"after": seen}


def compiled(gpu: Any, asked: argparse.Namespace) -> Figures:
    """`torch.compile(mode="reduce-overhead")`, which captures graphs in the midst of the loop."""
    import torch

    from gpu_side import loader_of

    layers = [
        torch.nn.Conv2d(3, 8, 7, 4),
        torch.nn.ReLU(),
        torch.nn.Flatten(1),
        torch.nn.Linear(8 * ((asked.size - 7) // 4 + 1) ** 2, 10),
    ]
    model = torch.nn.Sequential(*layers).to(gpu.model_device)
    with loader_of(gpu, asked) as loader, torch.no_grad():
        batches = iter(loader)
        step = model if gpu.is_dry else torch.compile(model, mode="reduce-overhead")
        for _ in range(gpu.size(50, 2)):
            images = next(batches)["image"].permute(0, 3, 1, 2)
            made, wanted = step(images), model(images)
            assert torch.allclose(made, wanted, rtol=1e-2, atol=1e-2), "another result than without compiling"
        batches.close()
    return {"holds": True}


def two_processes(gpu: Any, asked: argparse.Namespace) -> Figures:
    """Two trainings on one device, each with its loader."""
    if gpu.is_dry:
        return {"each": [trained(gpu, asked)["images_per_s"] for _ in range(2)]}
    command = [sys.executable, __file__, "trained", *arguments(asked)]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    answers = [process.communicate() for process in started]
    wrong = [
        said[1].strip().splitlines()[-1:] for said, process in zip(answers, started, strict=True) if process.returncode
    ]
    if wrong:
        raise RuntimeError(f"{wrong}")
    return {"each": [json.loads(said[0].strip().splitlines()[-1])["images_per_s"] for said in answers]}


def scaling(gpu: Any, asked: argparse.Namespace) -> Figures:
    """The CPU's part alone, on so many cores: images a second, bytes to the host."""
    if not gpu.is_dry:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: asked.cores])
    from gpu_side import loader_of

    with loader_of(gpu, asked, device="cpu", cpus=asked.cores) as loader:
        images_per_s = _rate_alone(gpu, loader, asked)
    return {"images_per_s": images_per_s, "cores": asked.cores}


def _rate_alone(gpu: Any, loader: Any, asked: argparse.Namespace) -> float:
    """Images a second of a loader with nobody who trains, over the ends of its epochs, once it is warm."""
    from gpu_side import rate

    def forever() -> Any:
        while True:
            for batch in loader:
                yield batch["image"], batch["label"]

    batches = forever()
    rate(gpu, lambda *_: None, batches, asked, asked.seconds / 3)
    images_per_s, _ = rate(gpu, lambda *_: None, batches, asked, asked.seconds)
    batches.close()
    return float(images_per_s)


def _rss_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def parts(models: tuple[str, ...], cores: int) -> dict[str, Part]:
    """All but the checks, in the order in which they are worth their time."""
    found = {"kernel": Part(kernel, 60), "loader alone": Part(alone, 45)}
    sides: dict[str, tuple[str, ...]] = {
        "penstock": (),
        "DataLoader": ("torchvision",) if is_installed("PIL") else (),
        "DALI": ("nvidia.dali", "PIL"),
    }
    for model in models:
        for side, needs in sides.items():
            found[f"{model}: {side}"] = Part(trained, 75, needs, (("model", model), ("side", side)))
    found["1,000 steps"] = Part(long_run, 60)
    found["training runs ahead"] = Part(ahead, 40)
    found["torch.compile"] = Part(compiled, 60)
    found["two processes"] = Part(
        two_processes, 60, (), (("model", models[-1]), ("side", "penstock"), ("seconds", 4.0))
    )
    for count in [one for one in CORES if one <= cores]:
        found[f"CPU path on {count} cores"] = Part(scaling, 25, (), (("cores", count), ("seconds", 3.0)))
    return found


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("part")
    made.add_argument("--data", type=Path, required=True)
    made.add_argument("--batch", type=int, default=256)
    made.add_argument("--size", type=int, default=224)
    made.add_argument("--seconds", type=float, default=8)
    made.add_argument("--model", default="resnet18")
    made.add_argument("--side", default="penstock")
    made.add_argument("--check")
    made.add_argument("--cores", type=int, default=1)
    return made


def arguments(asked: argparse.Namespace) -> list[str]:
    names = ("data", "batch", "size", "seconds", "model", "side", "check", "cores")
    return [f"--{name}={getattr(asked, name)}" for name in names if getattr(asked, name) is not None]


FUNCTIONS = {
    function.__name__: function
    for function in (kernel, checks, trained, alone, long_run, ahead, compiled, two_processes, scaling)
}


def attempt(function: Callable[[Any, argparse.Namespace], Figures], gpu: Any, asked: argparse.Namespace) -> Figures:
    """The figures, or what failed."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            found = function(gpu, asked)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            found = {"failed": f"{type(error).__name__}: {error}"[:500], "traceback": traceback.format_exc()[-3000:]}
    ours = sorted({str(one.message) for one in seen if str(one.message).startswith("penstock")})
    return {**found, **({"warnings": ours} if ours else {})}


def main() -> int:
    asked = parser().parse_args()
    from gpu_device import Cuda

    print(json.dumps(attempt(FUNCTIONS[asked.part], Cuda(), asked)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
