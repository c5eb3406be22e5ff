"""Rules of the house that no linter knows."""

from __future__ import annotations

import ast
import re
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "python" / "penstock"
FILES = sorted(PACKAGE.rglob("*.py"))
RUST = PACKAGE.parent.parent / "rust" / "src"
#: What a room of the native code may use beside itself; `bind` uses all, and none uses it.
ROOMS = {
    "core": "",
    "io": "core",
    "order": "core",
    "records": "core io",
    "jpeg": "core",
    "image": "core jpeg",
    "table": "core",
}


@pytest.mark.parametrize("forbidden", ["shell=True", "os.system", "allow_pickle=True"])
def test_no_way_to_run_what_data_says(forbidden: str) -> None:
    assert [path.name for path in FILES if forbidden in path.read_text()] == []


def test_what_is_unpickled_comes_from_a_process_that_this_one_started() -> None:
    importers = [path.relative_to(PACKAGE).as_posix() for path in FILES if "import pickle\n" in path.read_text()]
    assert importers == ["processes/link.py"]


def test_one_door_to_the_compiled_module() -> None:
    assert {path.name for path in FILES if "penstock._core import" in path.read_text()} == {"kernels.py"}


def test_each_framework_has_one_importer() -> None:
    importers = {path.relative_to(PACKAGE).as_posix() for path in FILES if "import torch\n" in path.read_text()}
    allowed = (
        "torch/",
        "deliver/torch",
        "deliver/triton_pixels.py",
        "cli/demo_train.py",
    )  # deliver/torch.py and those beside it
    assert [one for one in importers if not one.startswith(allowed)] == []


def test_one_place_warns() -> None:
    """It cleans what a terminal would obey out of the text."""
    found = {path.relative_to(PACKAGE).as_posix() for path in FILES if "warnings.warn(" in path.read_text()}
    assert found == {"core/warnings.py"}


def names_used(path: Path) -> list[tuple[str, ...]]:
    """What a Rust file names of the crate, outside tests and comments: `super::walk::{Member, Walk}` in tar/parse.rs is tar, walk, Member and so on."""
    text = re.sub("//.*", "", path.read_text().split("#[cfg(test)]\nmod tests {")[0])
    found = []
    for start, way, names in re.findall(r"\b(crate|super)((?:::\w+)*)(?:::\{([^}]*)\})?", text):
        base = [] if start == "crate" else module_of(path)[:-1]
        steps = way.split("::")[1:]
        while steps and steps[0] == "super":
            base, steps = base[:-1], steps[1:]
        found += [(*base, *steps, *name.split()[:1]) for name in names.split(",")]
    return found


def module_of(path: Path) -> tuple[str, ...]:
    parts = path.relative_to(RUST).with_suffix("").parts
    return parts[:-1] if parts[-1] in {"mod", "lib"} else parts


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_of_the_native_code_uses_only_those_below(room: str) -> None:
    used = {name[0] for path in (RUST / room).rglob("*.rs") for name in names_used(path) if name}
    assert used <= {room, *ROOMS[room].split()}


def test_native_files_use_one_another_in_no_circle() -> None:
    """But for `mod.rs`, which names its files and is named by them."""
    files = {module_of(path): path for path in RUST.rglob("*.rs") if path.stem not in {"mod", "lib", "tests"}}
    graph = {}
    for module, path in files.items():
        prefixes = {name[:length] for name in names_used(path) for length in range(1, len(name) + 1)}
        graph[module] = (prefixes & files.keys()) - {module}
    TopologicalSorter(graph).prepare()


#: An op by torchvision's name, and a verb, whose name stands in saved states; the loader, and the one whose batches come from Ray; recipes of images and of tables.
STAND_TWICE = {"Loader", "Normalize", "Pad", "Recipe"}


def test_a_class_name_stands_once() -> None:
    """A reader who meets a name knows which class is meant, and finds it."""
    files: dict[str, set[str]] = {}
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                files.setdefault(node.name, set()).add(path.relative_to(PACKAGE).as_posix())
    assert {name: sorted(found) for name, found in files.items() if len(found) > 1 and name not in STAND_TWICE} == {}
