"""GPUs, on a libnvidia-ml.so.1 that these tests compile: nvidia-ml-py loads it by its name."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SOURCE = Path(__file__).parents[1] / "support" / "fake_nvml.c"
#: Asks three times, with what makes each of them a new one.
ASK = """
import json, logging, sys
from penstock.observe import gpu
heard = []
handler = logging.Handler()
handler.emit = lambda record: heard.append(record.getMessage())
logging.getLogger("penstock").addHandler(handler)
logging.getLogger("penstock").setLevel(logging.INFO)
gpu._FRESH_S = 0.0
{before}
found = [[one.as_dict() for one in gpu.gpus_now()] for _ in range(3)]
print(json.dumps({{"found": found, "heard": heard, "imported": "pynvml" in sys.modules}}))
"""
#: PyTorch as it looks once it has begun CUDA, with memory of the GPUs of these numbers.
TORCH = """
import types
torch, cuda = types.ModuleType("torch"), types.ModuleType("torch.cuda")
cuda.is_initialized, cuda.device_count = lambda: {begun}, lambda: 3
cuda.memory_reserved = lambda number: number in {held} and 1024
cuda.get_device_properties = lambda number: types.SimpleNamespace(uuid=f"{{3 - number}}000-abc")
sys.modules |= {{"torch": torch, "torch.cuda": cuda}}
"""


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("nvml"))


def compiled(folder: Path, *options: str) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", folder / "libnvidia-ml.so.1", *options, SOURCE], check=True)
    return folder


def asked(folder: Path | None, before: str = "", **environment: str) -> dict[str, Any]:
    clean = {key: value for key, value in os.environ.items() if key not in ("CUDA_VISIBLE_DEVICES", "PENSTOCK_GPU")}
    named = {"LD_LIBRARY_PATH": str(folder)} if folder else {}
    command = [sys.executable, "-c", ASK.format(before=before)]
    done = subprocess.run(command, env=clean | named | environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_each_gpu_says_what_it_knows(driver: Path) -> None:
    hopper, older, partition = asked(driver, PENSTOCK_GPU="1")["found"][2]
    assert hopper == {
        "index": 0, "name": "Fake H100", "kernel_time": 0.87, "memory_bytes": 1_000_000_000, "memory_limit_bytes": 80_000_000_000,
        "power_w": 312.5, "sm": 0.625, "tensor": 0.25,
    }  # fmt: skip
    assert (older["kernel_time"], older["power_w"], older["sm"], older["tensor"]) == (0.87, 312.5, None, None)
    assert partition["memory_bytes"] == 3_000_000_000
    assert (partition["kernel_time"], partition["power_w"], partition["sm"]) == (None, None, None)


def test_counters_are_those_since_the_last_time(driver: Path) -> None:
    """So the first time there are none; the fake refuses samples that are no neighbours."""
    first, second, third = asked(driver, PENSTOCK_GPU="1")["found"]
    assert [one[0]["sm"] for one in (first, second, third)] == [None, 0.625, 0.625]


def test_without_a_gpu_in_use_nothing_is_imported(driver: Path) -> None:
    for before in ("", TORCH.format(begun=False, held=()), TORCH.format(begun=True, held=())):
        found = asked(driver, before)
        assert found == {"found": [[], [], []], "heard": [], "imported": False}
    assert not asked(driver, TORCH.format(begun=True, held=(0,)), PENSTOCK_GPU="0")["imported"]


def test_the_gpus_of_pytorch_are_found_by_what_cuda_calls_them(driver: Path) -> None:
    """CUDA's first one is the last on this bus."""
    assert [one["index"] for one in asked(driver, TORCH.format(begun=True, held=(0,)))["found"][0]] == [2]
    assert [one["index"] for one in asked(driver, TORCH.format(begun=True, held=(1, 2)))["found"][0]] == [1, 0]


def test_a_backend_of_jax_is_a_gpu_in_use(driver: Path) -> None:
    jax = "import types\nsys.modules['jax._src.xla_bridge'] = types.SimpleNamespace(_backends={'cpu': 1%s})"
    assert asked(driver, jax % "")["found"][0] == []
    assert len(asked(driver, jax % ", 'cuda': 1")["found"][0]) == 3


@pytest.mark.parametrize(
    ("said", "numbers"),
    [("0,2", [0, 2]), ("2, 0", [2, 0]), ("GPU-2", [1]), ("", []), ("-1", []), ("0,7,1", [0]), ("MIG-1", [])],
)
def test_what_cuda_may_see(driver: Path, said: str, numbers: list[int]) -> None:
    found = asked(driver, PENSTOCK_GPU="1", CUDA_VISIBLE_DEVICES=said)["found"][0]
    assert [one["index"] for one in found] == numbers


def test_a_gpu_that_is_lost_is_left_out_and_said_once(driver: Path) -> None:
    found = asked(driver, PENSTOCK_GPU="1", FAKE_NVML="lost")
    assert [[one["index"] for one in each] for each in found["found"]] == [[0, 1, 2], [1, 2], [1, 2]]
    assert sum("nvmlDeviceGetMemoryInfo" in line for line in found["heard"]) == 1


def test_what_is_no_share_is_not_told(driver: Path) -> None:
    assert [one[0]["sm"] for one in asked(driver, PENSTOCK_GPU="1", FAKE_NVML="odd")["found"]] == [None, None, None]


def test_a_driver_without_counters_tells_the_rest(tmp_path: Path) -> None:
    found = asked(compiled(tmp_path, "-DOLD"), PENSTOCK_GPU="1")
    assert [one["kernel_time"] for one in found["found"][1]] == [0.87, 0.87, None]
    assert [one["sm"] for one in found["found"][2]] == [None, None, None]


def test_no_driver_no_library_no_package(driver: Path, tmp_path: Path) -> None:
    """No figures, no error, and one line in the log."""
    (tmp_path / "libnvidia-ml.so.1").write_bytes(b"no library")
    hidden = "sys.modules['pynvml'] = None"
    for folder, before, named in ((driver, "", "none"), (tmp_path, "", ""), (driver, hidden, "")):
        found = asked(folder, before, PENSTOCK_GPU="1", FAKE_NVML=named)
        assert found["found"] == [[], [], []]
        assert len(found["heard"]) == 1, found["heard"]


def test_loaders_of_a_process_share_what_was_asked(driver: Path) -> None:
    found = asked(driver, "gpu._FRESH_S = 60.0", PENSTOCK_GPU="1")["found"]
    assert found[0] == found[1] == found[2] != []


def test_a_forked_child_begins_anew(driver: Path) -> None:
    before = """
import os
gpu.gpus_now(), gpu.gpus_now()
reading, writing = os.pipe()
if (child := os.fork()) == 0:
    os.write(writing, json.dumps([one.sm for one in gpu.gpus_now()]).encode())
    os._exit(0)
os.waitpid(child, 0)
heard.append(os.read(reading, 1000).decode())
"""
    assert asked(driver, before, PENSTOCK_GPU="1")["heard"][-1] == "[null, null, null]"
