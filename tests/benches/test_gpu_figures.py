"""What `make gpu` writes, and how it reads a trace; no GPU is needed."""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

BENCHES = Path(__file__).parents[2] / "benches"


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, BENCHES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def event(kind: str, name: str, begin: float, duration: float, stream: int, size: int = 0) -> dict[str, Any]:
    return {"cat": kind, "name": name, "ts": begin, "dur": duration, "args": {"stream": stream, "bytes": size}}


def test_overlap_of_copies_with_kernels_of_other_streams() -> None:
    events = [
        event("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 0, 10, 7, 600),
        event("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 5, 10, 7, 400),
        event("gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", 0, 100, 7, 9),
        event("kernel", "images", 15, 5, 7),
        event("kernel", "conv", 3, 4, 0),
        event("kernel", "conv", 6, 3, 0),
        event("kernel", "conv", 12, 8, 0),
        {"cat": "cpu_op", "name": "aten::conv2d", "ts": 0, "dur": 100},
    ]
    found = script("gpu_trace").figures(events, 10)
    assert found == {"copies_overlapped": 9 / 15, "copy_us_per_image": 1.5, "copied_bytes_per_image": 100}
    assert script("gpu_trace").figures([], 1)["copies_overlapped"] == 0


def test_the_table() -> None:
    gpu = script("gpu")
    figures = dict.fromkeys(("lost_to_data", "thread_waited", "copies_overlapped"), 0.004)
    figures |= {"images_per_s": 5000.4, "alone_images_per_s": 5020.0, "copied_bytes_per_image": 150528.0}
    models = {"resnet18": {"penstock": figures, "DALI": {"left out": "nvidia.dali is not installed"}}}
    results = {"gpu": "H100", "cpus": 16, "torch": "2.13", "batch": 256, "tests": "14 passed", "models": models}
    text = gpu.table(results)
    assert "| resnet18 | penstock | 5,000 | 5,020 | 0.4% | 0.4% | 0.4% | 150,528 |" in text
    assert "| resnet18 | DALI | left out: nvidia.dali is not installed |" in text
    page = f"# GPU\n\n{gpu.BEGIN}\n\nnot yet\n\n{gpu.END}\n\nMore.\n"
    assert gpu.written(page, text) == f"# GPU\n\n{gpu.BEGIN}\n\n{text}\n\n{gpu.END}\n\nMore.\n"
    assert gpu.PAGE.read_text().count(gpu.BEGIN) == gpu.PAGE.read_text().count(gpu.END) == 1


@pytest.mark.slow
def test_a_side_gives_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    monkeypatch.syspath_prepend(str(BENCHES))
    script("gpu").make_photographs(tmp_path, 20)
    side = script("gpu_side")
    asked = argparse.Namespace(data=tmp_path, batch=10, device="cpu")
    batches, shapes = side.penstock(asked), []
    images_per_s, waited = side.rate(
        lambda images, labels: shapes.append((images.shape, labels.dtype)), batches, asked, 0.1
    )
    assert images_per_s > 0
    assert 0 <= waited <= 1
    assert set(shapes) == {((10, 3, 224, 224), torch.int64)}
    assert next(batches)[0].is_contiguous(memory_format=torch.channels_last)
    batches.close()


@pytest.mark.parametrize(("name", "millions"), [("resnet18", 11.69), ("resnet50", 25.56)])
def test_the_models_are_those_of_the_paper(name: str, millions: float) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    with torch.device("meta"):
        model = script("gpu_model").resnet(name)
    assert round(sum(weights.numel() for weights in model.parameters()) / 1e6, 2) == millions


@pytest.mark.slow
def test_without_a_gpu_it_says_so_in_a_line() -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    hidden = {"CUDA_VISIBLE_DEVICES": "", "PATH": ""}
    command = [sys.executable, str(BENCHES / "gpu.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=hidden)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout == "make gpu: PyTorch sees no GPU here, so nothing was tested or measured\n"
