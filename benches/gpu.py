"""Everything that needs a GPU, in one command of less than ten minutes: what must hold, and the figures of docs/gpu.md.

    make gpu                                                    # or: python benches/gpu.py
    python benches/gpu.py --models resnet18 --seconds 5         # a part of it; --only TEXT, --images, --minutes, --json FILE
    python benches/gpu.py --dry-run                             # every part on a driver that is not there: nothing is measured
    python benches/gpu.py --write FILE                          # docs/gpu.md's table from figures that an earlier run left

It needs Python, PyTorch and the built package, installed or in python/, and says first what is missing. Each part is a process with a limit of its own; one that fails is
noted, and the next begins. The figures are written after every part (benches/.work/gpu.json), so that a run that is cut off keeps what it had. Without a GPU it says so in one line, and ends
with 1.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent
PAGE = REPOSITORY / "docs" / "gpu.md"
sys.path.insert(0, str(HERE))
from gpu_parts import Part, arguments, attempt, check, parts  # noqa: E402  # which lies beside this
from gpu_process import answers, is_installed  # noqa: E402
from gpu_table import table, written  # noqa: E402

#: Without these nothing runs; the others only make it more.
REQUIRED = {"torch": "PyTorch", "numpy": "NumPy", "pyarrow": "pyarrow", "psutil": "psutil"}
OPTIONAL = {"triton": "Triton: images by several kernels of PyTorch's", "PIL": "Pillow: arrays in place of photographs", "torchvision": "torchvision: no DataLoader on photographs", "nvidia.dali": "DALI: not compared", "pynvml": "nvidia-ml-py: no figures of the GPU"}  # fmt: skip
MODELS = ("resnet50", "resnet18")
CHECK_LIMIT_S = 60.0

Figures = dict[str, Any]


def missing() -> str:
    """What is not there that nothing works without; "" where all of it is."""
    found = [f"{name} (pip install {module})" for module, name in REQUIRED.items() if not is_installed(module)]
    if not is_installed("penstock") and not (REPOSITORY / "python" / "penstock" / "_core.abi3.so").exists():
        found.append("the built package (a wheel, or python/penstock/_core.abi3.so beside this)")
    return "; ".join(found)


def machine() -> Figures:
    """What the figures are of."""
    import torch

    def said(*command: str) -> str | None:
        try:
            return subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout.strip()
        except (OSError, subprocess.SubprocessError):
            return None

    headers = Path(sysconfig.get_path("include"), "Python.h").exists()
    left_out = [text for module, text in OPTIONAL.items() if not is_installed(module)]
    left_out += [] if headers else ["Python's headers (python3-dev): Triton cannot start its kernel"]
    left_out += [] if shutil.which("cc") or shutil.which("gcc") else ["a C compiler: Triton cannot start its kernel"]
    return {
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else f"no GPU ({platform.machine()})",
        "gpus": torch.cuda.device_count(),
        "cpus": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "missing": left_out,
        "nvidia-smi": said("nvidia-smi"),
        "topology": said("nvidia-smi", "topo", "-m"),
    }


class Report:
    """The figures so far, on disk after each part."""

    def __init__(self, path: Path, results: Figures) -> None:
        self.path, self.results = path, results

    def add(self, kind: str, name: str, found: Figures) -> None:
        self.results[kind][name] = found
        self.path.parent.mkdir(parents=True, exist_ok=True)
        aside = self.path.with_suffix(".part")
        aside.write_text(json.dumps(self.results, indent=1))
        aside.replace(self.path)
        shown = {key: value for key, value in found.items() if key not in ("report", "traceback")}
        print(f"{name}: {json.dumps(shown)}", flush=True)


class Run:
    """Parts, one after the other, until the time is up."""

    def __init__(self, report: Report, asked: argparse.Namespace, data: Path) -> None:
        self.report, self.asked, self.data = report, asked, data
        self.ends_at = time.monotonic() + 60 * asked.minutes

    @property
    def left_s(self) -> float:
        return self.ends_at - time.monotonic()

    def is_asked(self, name: str) -> bool:
        return not self.asked.only or self.asked.only in name

    def options(self, **more: Any) -> argparse.Namespace:
        given = {name: getattr(self.asked, name) for name in ("batch", "size", "seconds")}
        common = {"data": self.data, "model": None, "side": None, "check": None, "cores": None}
        return argparse.Namespace(**{**common, **given, **more})

    def command(self, name: str, options: argparse.Namespace) -> list[str]:
        return [sys.executable, str(HERE / "gpu_parts.py"), name, *arguments(options)]

    def run_checks(self, names: list[str]) -> None:
        """In one process, as long as they hold; one that fails or hangs is noted, and another process goes on behind it."""
        while names:
            if self.left_s < 10:
                return self._leave_out(names)
            before, command = len(names), self.command("checks", self.options(check=",".join(names)))
            for found in answers(command, min(CHECK_LIMIT_S, self.left_s)):
                if (
                    names
                    and (found or {}).get("check", names[0]) == names[0]
                    and ("check" in found or "failed" in found)
                ):
                    self.report.add(
                        "checks", names.pop(0), {key: value for key, value in found.items() if key != "check"}
                    )
            if len(names) == before:
                self.report.add("checks", names.pop(0), {"failed": "its process ended without a word"})
        return None

    def _leave_out(self, names: list[str]) -> None:
        for name in names:
            self.report.add("checks", name, {"left out": "no time was left"})

    def run_part(self, name: str, part: Part) -> None:
        lacks = [need for need in part.needs if not is_installed(need)]
        if lacks:
            found = {"left out": f"{', '.join(lacks)} is not installed"}
        elif self.left_s < 10:
            found = {"left out": "no time was left"}
        else:
            command = self.command(part.run.__name__, self.options(**dict(part.options)))
            found = {"failed": "gave no figures"}
            for found in answers(command, min(part.limit_s, self.left_s)):  # noqa: B007  # the last one counts
                pass
        self.report.add("parts", name, found)


class DryRun(Run):
    """All of it in this process, on the fake driver."""

    def __init__(self, report: Report, asked: argparse.Namespace, data: Path, gpu: Any) -> None:
        super().__init__(report, asked, data)
        self.gpu = gpu

    def run_checks(self, names: list[str]) -> None:
        for name in names:
            self.report.add("checks", name, attempt(check, self.gpu, self.options(check=name)))

    def run_part(self, name: str, part: Part) -> None:
        lacks = [need for need in part.needs if not is_installed(need)]
        options = self.options(**{**dict(part.options), "seconds": self.asked.seconds})
        found = {"left out": f"{', '.join(lacks)} is not installed"} if lacks else attempt(part.run, self.gpu, options)
        self.report.add("parts", name, found)


def dry_run(asked: argparse.Namespace) -> int:
    """Tries every part without a device."""
    import pytest

    from gpu_checks import CHECKS
    from gpu_device import Dry
    from gpu_photographs import make_images

    asked.batch, asked.size, asked.seconds = 4, 16, 0.02
    results: Figures = {
        "machine": {**machine(), "gpu": "none: a dry run"},
        "batch": 4,
        "images": "",
        "checks": {},
        "parts": {},
    }
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        results["images"] = make_images(Path(folder, "images"), 16)
        run = DryRun(Report(asked.json, results), asked, Path(folder, "images"), Dry(patch))
        run.run_checks([name for name in CHECKS if run.is_asked(name)])
        for name, part in parts(("tiny",), 1).items():
            if run.is_asked(name):
                run.run_part(name, part)
    print(table(results))
    print("dry run: nothing was measured")
    return int(any("failed" in found for kind in ("checks", "parts") for found in results[kind].values()))


def measure(asked: argparse.Namespace) -> int:
    """The real thing."""
    from gpu_checks import CHECKS
    from gpu_photographs import make_images

    results: Figures = {"machine": machine(), "batch": asked.batch, "images": "", "checks": {}, "parts": {}}
    found = results["machine"]
    print(f"{found['gpu']}, {found['cpus']} CPU cores, PyTorch {found['torch']}; figures go to {asked.json}")
    for text in found["missing"]:
        print(f"missing: {text}")
    with tempfile.TemporaryDirectory() as folder:
        run = Run(Report(asked.json, results), asked, Path(folder, "images"))
        results["images"] = make_images(run.data, asked.images)
        run.run_checks([name for name in CHECKS if run.is_asked(name)])
        for name, part in parts(tuple(asked.models.split(",")), found["cpus"]).items():
            if run.is_asked(name):
                run.run_part(name, part)
    print(table(results))
    if not asked.only and (REPOSITORY / ".git").exists():
        PAGE.write_text(written(PAGE.read_text(), table(results)))
    return int(any("failed" in one for kind in ("checks", "parts") for one in results[kind].values()))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--only", help="the checks and parts whose names have this in them")
    parser.add_argument("--images", type=int, default=2048)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--minutes", type=float, default=9.5, help="no part begins later")
    parser.add_argument("--json", type=Path, default=HERE / ".work" / "gpu.json")
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument("--write", type=Path)
    asked = parser.parse_args()
    if asked.write:
        PAGE.write_text(written(PAGE.read_text(), table(json.loads(asked.write.read_text()))))
        return 0
    if lacks := missing():
        print(f"make gpu: missing: {lacks}; nothing was tested or measured")
        return 1
    if not is_installed("penstock"):
        sys.path.insert(0, str(REPOSITORY / "python"))
    if asked.dry_run:
        return dry_run(asked)
    import torch

    if not torch.cuda.is_available():
        print("make gpu: PyTorch sees no GPU here, so nothing was tested or measured")
        return 1
    return measure(asked)


if __name__ == "__main__":
    sys.exit(main())
