"""All tests and figures that need a GPU, in one command of less than ten minutes; writes the table of docs/gpu.md.

    make gpu                                              # or: python benches/gpu.py
    python benches/gpu.py --models resnet18 --seconds 5   # a part of it; --sides, --images, --no-tests, --json FILE

It needs Python, PyTorch and the built package, installed or in python/; Pillow for the figures, pytest for the tests, and torchvision (DataLoader) and DALI where these
are to be compared. What is missing is left out, and the table says so. Without a GPU it says so in one line, and ends with 1: nothing was measured.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent
PAGE = REPOSITORY / "docs" / "gpu.md"
BEGIN, END = "<!-- figures: written by make gpu -->", "<!-- end of figures -->"

MODELS = ("resnet18", "resnet50")
#: Each side, and what it needs beside PyTorch.
SIDES = {"penstock": "penstock", "DataLoader": "torchvision", "DALI": "nvidia.dali"}
CLASSES = 10
#: So that all of it takes less than ten minutes, whatever hangs.
SIDE_TIMEOUT_S, TESTS_TIMEOUT_S = 75.0, 120.0

Figures = dict[str, Any]


def is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # of the package around it
        return False


def environment() -> dict[str, str]:
    """That of child processes: they import the package of this folder where none is installed, and what tests share."""
    paths = [str(REPOSITORY / "tests"), *([] if is_installed("penstock") else [str(REPOSITORY / "python")])]
    return os.environ | {"PYTHONPATH": os.pathsep.join([*paths, *filter(None, [os.environ.get("PYTHONPATH")])])}


def run_tests() -> str:
    """How tests/gpu went, in a line."""
    if not is_installed("pytest"):
        return "not run: pytest is not installed"
    # Without the plugins that the project's settings name.
    options = [
        "-q",
        "-c",
        os.devnull,
        "--rootdir",
        ".",
        "--noconftest",
        "-p",
        "no:cacheprovider",
        "-W",
        "error",
        "--import-mode",
        "importlib",
    ]
    command = [sys.executable, "-m", "pytest", *options, "tests/gpu"]
    try:
        done = subprocess.run(
            command,
            cwd=REPOSITORY,
            env=environment(),
            capture_output=True,
            text=True,
            check=False,
            timeout=TESTS_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        return f"FAILED: not done within {TESTS_TIMEOUT_S:.0f} s"
    lines = done.stdout.strip().splitlines() or done.stderr.strip().splitlines() or ["no output"]
    if done.returncode:
        print(done.stdout, done.stderr, file=sys.stderr)
        return f"FAILED: {lines[-1]}"
    return lines[-1]


def make_photographs(folder: Path, images: int) -> None:
    """JPEGs of 500×400 pixels, smooth with some noise, some 60 KB each, in a folder a class."""
    import numpy as np
    from PIL import Image

    def make(number: int) -> None:
        random = np.random.default_rng(number)
        coarse = Image.fromarray(random.integers(0, 256, (20, 25, 3), np.uint8))
        smooth = np.asarray(coarse.resize((500, 400), Image.Resampling.BICUBIC), np.int16)
        noisy = np.clip(smooth + random.integers(-12, 13, smooth.shape, np.int16), 0, 255).astype(np.uint8)
        Image.fromarray(noisy).save(folder / f"{number % CLASSES:02}" / f"{number:05}.jpg", quality=85)

    for number in range(CLASSES):
        (folder / f"{number:02}").mkdir(parents=True)
    with ThreadPoolExecutor() as pool:
        list(pool.map(make, range(images)))


def measure(side: str, model: str, data: Path, asked: argparse.Namespace) -> Figures:
    """The figures of a side on a model, or {"left out": why}."""
    if not is_installed(SIDES[side]) and side != "penstock":
        return {"left out": f"{SIDES[side]} is not installed"}
    options = {
        "side": side,
        "model": model,
        "data": data,
        "device": asked.device,
        "batch": asked.batch,
        "seconds": asked.seconds,
    }
    command = [sys.executable, str(HERE / "gpu_side.py"), *(f"--{name}={value}" for name, value in options.items())]
    try:
        done = subprocess.run(
            command, env=environment(), capture_output=True, text=True, check=False, timeout=SIDE_TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        return {"left out": f"gave nothing within {SIDE_TIMEOUT_S:.0f} s"}
    if done.returncode:
        return {"left out": (done.stderr.strip().splitlines() or ["no output"])[-1][:200]}
    found: Figures = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def table(results: Figures) -> str:
    """The figures as Markdown."""
    lines = [
        f"{results['gpu']}, {results['cpus']} CPU cores, PyTorch {results['torch']}, batches of {results['batch']} photographs. Tests: {results['tests']}.",
        "",
        "| model | loader | images/s | on one resident batch | lost to data | thread waits | copies beside kernels | bytes copied an image |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for model, sides in results["models"].items():
        for side, found in sides.items():
            if "left out" in found:
                lines.append(f"| {model} | {side} | left out: {found['left out'].replace('|', '/')} | | | | | |")
                continue
            shares = (found[name] for name in ("lost_to_data", "thread_waited", "copies_overlapped"))
            lines.append(
                f"| {model} | {side} | {found['images_per_s']:,.0f} | {found['alone_images_per_s']:,.0f} | "
                f"{' | '.join(f'{share:.1%}' for share in shares)} | {found['copied_bytes_per_image']:,.0f} |"
            )
    return "\n".join(lines)


def written(page: str, text: str) -> str:
    """The page with `text` between its marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{text}\n\n{END}{after}"


def device_name(device: str) -> str | None:
    """What the device is called; None where there is none, or no PyTorch."""
    if not is_installed("torch"):
        return None
    import torch

    if device == "cpu":
        return f"no GPU ({platform.machine()})"
    return torch.cuda.get_device_name() if torch.cuda.is_available() else None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--sides", default=",".join(SIDES))
    parser.add_argument("--images", type=int, default=4096)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--seconds", type=float, default=12)
    parser.add_argument(
        "--device", default="cuda", help=argparse.SUPPRESS
    )  # "cpu" tries the script, and writes no page
    parser.add_argument("--no-tests", action="store_true")
    parser.add_argument("--json", type=Path, help="the figures to this file, too")
    asked = parser.parse_args()
    name = device_name(asked.device)
    if name is None:
        print("make gpu: PyTorch sees no GPU here, so nothing was tested or measured")
        return 1
    import torch

    results: Figures = {
        "gpu": name,
        "cpus": len(os.sched_getaffinity(0)),
        "torch": torch.__version__,
        "batch": asked.batch,
        "tests": "not run" if asked.no_tests else run_tests(),
        "models": {},
    }
    print(f"tests: {results['tests']}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        if is_installed("PIL"):
            make_photographs(Path(folder), asked.images)
        for model in asked.models.split(","):
            found = results["models"][model] = {}
            for side in asked.sides.split(","):
                found[side] = (
                    measure(side, model, Path(folder), asked)
                    if is_installed("PIL")
                    else {"left out": "Pillow is not installed"}
                )
                print(f"{model}, {side}: {json.dumps(found[side])}", flush=True)
    text = table(results)
    print(text)
    if asked.json:
        asked.json.write_text(json.dumps(results, indent=1))
    if asked.device != "cpu":
        PAGE.write_text(written(PAGE.read_text(), text))
    return int(results["tests"].startswith("FAILED"))


if __name__ == "__main__":
    sys.exit(main())
