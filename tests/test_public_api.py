"""What `import penstock as ps` offers."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import penstock as ps

NAMES = {
    "Column", "DataError", "Dataset", "Limits", "Loader", "PenstockError", "PlanError", "ProcessError", "SourceError",
    "StateError", "StorageError", "__version__", "concat", "from_arrays", "from_dataset", "from_iterable", "image", "read", "read_sql", "read_stream", "register_format",
}  # fmt: skip


def test_the_public_names() -> None:
    assert set(ps.__all__) == NAMES
    assert all(hasattr(ps, name) for name in ps.__all__)


def test_the_tree_of_errors() -> None:
    for name in NAMES:
        thing = getattr(ps, name)
        if inspect.isclass(thing) and issubclass(thing, Exception):
            assert issubclass(thing, ps.PenstockError)
    assert issubclass(ps.PlanError, ValueError)
    assert issubclass(ps.SourceError, FileNotFoundError)
    assert issubclass(ps.DataError, ValueError)
    assert issubclass(ps.ProcessError, RuntimeError)
    assert str(ps.SourceError("data: gone")) == "data: gone"


@pytest.mark.parametrize("name", sorted(NAMES - {"__version__", "image"}))
def test_public_names_say_what_one_gets(name: str) -> None:
    thing = getattr(ps, name)
    assert len(inspect.getdoc(thing) or "") > 20
    if inspect.isclass(thing):
        for member, value in vars(thing).items():
            if not member.startswith("_") and (inspect.isfunction(value) or isinstance(value, property)):
                assert inspect.getdoc(value), f"{name}.{member}"


def test_importing_is_light() -> None:
    """No framework is imported before it is asked for, nor what would import one (pyarrow.dataset imports pandas)."""
    heavy = ["torch", "jax", "tensorflow", "PIL", "rich", "typer", "pandas", "pyarrow.dataset"]
    code = f"import sys, penstock; print([module for module in {heavy} if module in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_it_is_typed() -> None:
    assert (Path(ps.__file__).parent / "py.typed").exists()
