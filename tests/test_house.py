"""Rules of the house that no linter knows."""

from __future__ import annotations

from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "python" / "penstock"
FILES = sorted(PACKAGE.rglob("*.py"))


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
    assert found == {"core/warned.py"}
