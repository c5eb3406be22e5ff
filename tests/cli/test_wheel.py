"""The wheel as users install it: into an empty environment, without cargo, without this checkout and offline once installed."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]  # it compiles, and installs from the package index

#: Runs when the environment's Python starts.
OFFLINE = """
import sys

def forbid(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo"):
        raise OSError(f"offline: {event} {arguments}")

sys.addaudithook(forbid)
"""


def run(*command: object, **options: object) -> str:
    """What the command prints; a failure shows all of it."""
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, encoding="utf-8", check=False, timeout=800, **options
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel() -> Path:
    environment = {
        name: value for name, value in os.environ.items() if name not in {"MAKEFLAGS", "MFLAGS", "MAKELEVEL"}
    }
    run("make", "wheel", f"PYTHON={sys.executable}", cwd=ROOT, env=environment)
    return max((ROOT / "dist").glob("penstock-*.whl"), key=lambda path: path.stat().st_mtime)


class Environment:
    """A virtual environment that knows nothing of this one, and the variables its programs see."""

    def __init__(self, root: Path) -> None:
        run(sys.executable, "-m", "venv", root / "venv")
        self.programs = root / "venv" / "bin"
        (self.packages,) = (root / "venv").glob("lib/python*/site-packages")
        self.variables = {"PATH": str(self.programs), "HOME": str(root), "LANG": "C.UTF-8"}
        self.folder = root

    def install(self, wheel: Path) -> None:
        """With pip's own cache, index and pins, but nothing that could compile."""
        foreign = {"PYTHONPATH", "VIRTUAL_ENV", "XDG_CACHE_HOME"}  # the last is the tests' own
        pip = {name: value for name, value in os.environ.items() if name not in foreign}
        pip |= {"PATH": str(self.programs), "PIP_CONSTRAINT": str(ROOT / "constraints.txt")}
        run(
            self.programs / "python",
            *["-m", "pip", "install", "--no-compile", "--only-binary", ":all:"],
            wheel,
            env=pip,
        )
        (self.packages / "offline.py").write_text(OFFLINE)
        (self.packages / "offline.pth").write_text("import offline\n")

    def run(self, program: str, *arguments: object) -> str:
        return run(self.programs / program, *arguments, env=self.variables, cwd=self.folder)


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    environment = Environment(tmp_path_factory.mktemp("installed"))
    environment.install(wheel)
    return environment


def test_the_wheel_is_for_every_python_from_3_11(wheel: Path) -> None:
    assert re.fullmatch(r"penstock-[\d.]+-cp311-abi3-(manylinux|macosx)_\w+\.whl", wheel.name)
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {"penstock/_core.abi3.so", "penstock/_core.pyi", "penstock/py.typed"} <= set(names)
    assert {name.split("/")[0] for name in names if ".dist-info" not in name} <= {"penstock", "penstock.libs"}


def test_the_environment_is_empty_and_offline(installed: Environment) -> None:
    assert shutil.which("cargo", path=installed.variables["PATH"]) is None
    assert installed.run("python", "-I", "-m", "pip", "check").strip() == "No broken requirements found."
    names = {name["name"].lower() for name in json.loads(installed.run("python", "-m", "pip", "list", "--format=json"))}
    assert {"penstock", "numpy", "pyarrow"} <= names
    assert not names & {"torch", "pillow", "maturin", "pytest"}
    ask = "import socket\ntry: socket.create_connection(('localhost', 9))\nexcept OSError as error: print(error)"
    assert installed.run("python", "-I", "-c", ask).startswith("offline: socket.getaddrinfo")


def test_the_example_of_the_readme_runs(installed: Environment, photos: Path) -> None:
    (example,) = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE | re.DOTALL)
    (installed.folder / "photos").symlink_to(photos)
    (installed.folder / "example.py").write_text(
        f"{example}\nprint(images.shape, labels.dtype, ps.__file__)\n", "utf-8"
    )
    lines = installed.run("python", "-I", "example.py").splitlines()
    assert lines[-1] == f"(16, 3, 64, 64) int64 {installed.packages / 'penstock' / '__init__.py'}"
    assert "'step': 2" in lines[0] or "'epoch': 1" in lines[0]
    assert any("samples/s" in line for line in lines)


def test_the_quick_demo_runs_in_20_seconds(installed: Environment) -> None:
    def used_s() -> float:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    before_s = used_s()
    figures = json.loads(installed.run("penstock", "demo", "--quick", "--json"))
    assert used_s() - before_s < 20  # of the CPU: the clock also counts what else the machine does
    assert figures["passed"]
    assert figures["folder"].startswith(str(installed.folder))
