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
    "StateError", "StorageError", "__version__", "col", "concat", "from_arrays", "from_dataset", "from_iterable", "from_tf_data", "from_torch", "image", "merge_states", "mix", "read", "read_sql", "read_stream", "register_format", "zip",
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


def imported_by(code: str, modules: list[str]) -> str:
    code = f"import sys, penstock\n{code}\nprint([module for module in {modules} if module in sys.modules])"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_importing_is_light() -> None:
    """Names are imported when they are first used, and then no framework, nor what would import one (pyarrow.dataset imports pandas)."""
    assert imported_by("", ["numpy", "pyarrow", "penstock.dataset"]) == "[]"
    heavy = ["torch", "jax", "tensorflow", "PIL", "rich", "typer", "pandas", "pyarrow.dataset"]
    assert imported_by("penstock.read, penstock.Loader, penstock.image", heavy) == "[]"
    assert imported_by("from penstock import *", heavy) == "[]"


def test_every_public_name_is_there() -> None:
    for name in ps.__all__:
        assert getattr(ps, name) is not None
    assert {*dir(ps)} == {*ps.__all__}
    with pytest.raises(AttributeError, match="module 'penstock' has no attribute 'nothing'"):
        _ = ps.nothing  # type: ignore[attr-defined]


def test_it_is_typed() -> None:
    assert (Path(ps.__file__).parent / "py.typed").exists()


def test_local_files_need_nothing_of_remote_stores_and_frameworks(tmp_path: Path) -> None:
    """Not the packages of the core either that other work needs: a machine without these can train from its disk."""
    program = (
        "import sys, pathlib, numpy as np\n"
        f"folder = pathlib.Path({str(tmp_path)!r})\n"
        "away = 'obstore rich typer torch jax tensorflow pandas polars http.client urllib.request'.split()\n"
        "sys.modules.update(dict.fromkeys(away))\n"  # imports of these fail
        "import penstock as ps\n"
        "np.save(folder / 'x.npy', np.zeros((10, 3), np.float32))\n"
        "(folder / 'rows.jsonl').write_text('{\"a\": 1}\\n' * 10)\n"
        "rows = [ps.read(str(folder / name)).shuffle(seed=0).batch(2) for name in ('x.npy', 'rows.jsonl')]\n"
        "assert 'psutil' not in sys.modules\n"
        "for plan in rows:\n"
        "    with ps.Loader(plan) as loader:\n"
        "        assert len(list(loader)) == 5\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
