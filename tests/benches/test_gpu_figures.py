"""What `make gpu` does and writes, and how it reads a trace; no GPU is needed."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

BENCHES = Path(__file__).parents[2] / "benches"


@pytest.fixture(autouse=True)
def beside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scripts import what lies beside them."""
    monkeypatch.syspath_prepend(str(BENCHES))


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
        event("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 5, 10, 7, 300),
        event("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 7, 1, 0, 100),  # a stray one of the training's
        event("gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", 0, 100, 7, 9),
        event("kernel", "images", 15, 5, 7),
        event("kernel", "conv", 3, 4, 0),
        event("kernel", "conv", 6, 3, 0),
        event("kernel", "conv", 12, 8, 0),
        {"cat": "cpu_op", "name": "aten::conv2d", "ts": 0, "dur": 100},
    ]
    assert script("gpu_trace").figures(events, 10) == {
        "copies_overlapped": 9 / 15,
        "copy_us_per_image": 1.5,
        "copied_bytes_per_image": 100,
        "pageable_share": 0.1,
        "training_idle": 1 - 14 / 17,
        "kernel_us_per_image": 0.5,
    }


def test_what_a_trace_does_not_show_is_no_figure() -> None:
    assert set(script("gpu_trace").figures([], 1).values()) == {None}
    copies = [event("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 0, 10, 7, 600)]
    assert script("gpu_trace").figures(copies, 1)["copies_overlapped"] is None


def test_the_table() -> None:
    gpu = script("gpu_table")
    figures: dict[str, Any] = dict.fromkeys(("lost_to_data", "thread_waited", "copies_overlapped"), 0.004)
    figures |= {"images_per_s": 5000.4, "alone_images_per_s": 5020.0, "copied_bytes_per_image": None}
    results = {
        "machine": {"gpu": "H100", "cpus": 16, "torch": "2.13"},
        "batch": 256,
        "images": "photographs",
        "checks": {"it_holds": {"holds": True}, "it_does_not": {"failed": "AssertionError: no|"}},
        "parts": {
            "resnet18: penstock": figures,
            "resnet18: DALI": {"left out": "nvidia.dali is not installed"},
            "loader alone": {"images_per_s": 7000.0, "pinned_copy_gb_per_s": None},
        },
    }
    text = gpu.table(results)
    assert "| resnet18: penstock | 5,000 | 5,020 | 0.4% | 0.4% | 0.4% | none | none | none | none | none |" in text
    assert "| resnet18: DALI | left out: nvidia.dali is not installed |" in text
    assert "Checks: 1 of 2 hold." in text
    assert "- it_does_not: failed: AssertionError: no/" in text
    assert "| loader alone | images per s 7,000, pinned copy gb per s: none |" in text
    page = f"# GPU\n\n{gpu.BEGIN}\n\nnot yet\n\n{gpu.END}\n\nMore.\n"
    assert gpu.written(page, text) == f"# GPU\n\n{gpu.BEGIN}\n\n{text}\n\n{gpu.END}\n\nMore.\n"
    docs = (BENCHES.parent / "docs" / "gpu.md").read_text()
    assert docs.count(gpu.BEGIN) == docs.count(gpu.END) == 1


@pytest.mark.parametrize(("name", "millions"), [("resnet18", 11.69), ("resnet50", 25.56)])
def test_the_models_are_those_of_the_paper(name: str, millions: float) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    with torch.device("meta"):
        model = script("gpu_model").resnet(name)
    assert round(sum(weights.numel() for weights in model.parameters()) / 1e6, 2) == millions


def test_what_forbids_waiting_is_off_again_under_errors_for_warnings(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch warns that it is a prototype, after it is on."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    modes = {"default": 0, "error": 2}
    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", lambda mode: torch._C._cuda_set_sync_debug_mode(modes[mode]))
    cuda = script("gpu_device").Cuda()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with cuda.no_waiting():
            assert torch._C._cuda_get_sync_debug_mode() == 2
        assert torch._C._cuda_get_sync_debug_mode() == 0
        with pytest.raises(ZeroDivisionError), cuda.no_waiting():
            raise ZeroDivisionError
    assert torch._C._cuda_get_sync_debug_mode() == 0


def run(tmp_path: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(BENCHES / "gpu.py"), *arguments, "--json", str(tmp_path / "gpu.json")]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


@pytest.mark.slow
def test_without_a_gpu_it_says_so_in_a_line(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    done = run(tmp_path, CUDA_VISIBLE_DEVICES="", PATH="", PYTHONPATH=os.environ.get("PYTHONPATH", ""))
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout == "make gpu: PyTorch sees no GPU here, so nothing was tested or measured\n"


def test_what_is_missing_is_said_first(tmp_path: Path) -> None:
    """On an interpreter that has nothing."""
    command = [sys.executable, "-S", "-E", "-s", str(BENCHES / "gpu.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith("make gpu: missing: PyTorch (pip install torch); NumPy (pip install numpy)")
    assert done.stdout.count("\n") == 1


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_dry_run_of_every_part(tmp_path: Path) -> None:
    """On the fake driver; what cannot be measured there is None, and nothing fails."""
    pytest.importorskip("torch", reason="PyTorch is not installed")
    done = run(tmp_path, "--dry-run", **os.environ)
    results = json.loads((tmp_path / "gpu.json").read_text())
    assert {
        name: found for kind in ("checks", "parts") for name, found in results[kind].items() if "failed" in found
    } == {}
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("dry run: nothing was measured\n")
    assert len(results["checks"]) >= 15
    assert {"kernel", "loader alone", "tiny: penstock", "tiny: DataLoader", "two processes"} < set(results["parts"])
    assert results["parts"]["tiny: penstock"]["copies_overlapped"] is None
    assert results["parts"]["loader alone"]["pinned_copy_gb_per_s"] is None


@pytest.mark.slow
def test_a_part_that_fails_hangs_or_dies_is_noted_and_the_next_begins(tmp_path: Path) -> None:
    gpu = script("gpu")

    def said(program: str, limit_s: float = 20) -> list[Any]:
        return list(gpu.answers([sys.executable, "-c", program], limit_s))

    assert said("print('{\"a\": 1}')") == [{"a": 1}]
    assert said("print('noise'); print('{\"a\": 1}', flush=True); import time; time.sleep(60)", 5) == [
        {"a": 1},
        {"failed": "gave nothing within 5 s"},
    ]
    (died,) = said("import os, sys; print('the device', file=sys.stderr, flush=True); os._exit(3)")
    assert died["failed"].startswith("ended with 3: the device")


def test_checks_go_on_behind_one_that_ends_their_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = script("gpu")
    asked = gpu.argparse.Namespace(batch=4, size=8, seconds=1.0, minutes=5.0, only=None)
    results: dict[str, Any] = {"checks": {}, "parts": {}}
    run_ = gpu.Run(gpu.Report(tmp_path / "gpu.json", results), asked, tmp_path)
    processes = iter([
        [{"check": "a", "holds": True}, {"check": "b", "failed": "no"}],
        [{"failed": "ended with -9: "}],
        [],
        [{"check": "e", "holds": True}],
    ])  # fmt: skip
    monkeypatch.setattr(gpu, "answers", lambda *_: next(processes))
    run_.run_checks(list("abcde"))
    found = json.loads((tmp_path / "gpu.json").read_text())["checks"]
    assert {name: "holds" in one for name, one in found.items()} == {
        "a": True,
        "b": False,
        "c": False,
        "d": False,
        "e": True,
    }
    monkeypatch.setattr(gpu, "answers", lambda *_: iter([{"images_per_s": 1.0}, {"failed": "gave nothing within 9 s"}]))
    run_.run_part("loader alone", gpu.Part(lambda *_: {}, 9))
    assert "failed" in json.loads((tmp_path / "gpu.json").read_text())["parts"]["loader alone"]
    run_.ends_at = 0
    run_.run_part("kernel", gpu.Part(lambda *_: {}, 9))
    assert results["parts"]["kernel"] == {"left out": "no time was left"}
