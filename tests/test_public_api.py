"""What `import penstock as ps` offers."""

from __future__ import annotations

import importlib
import inspect
import pydoc
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import penstock as ps

NAMES = {
    "Column", "DataError", "Dataset", "Limits", "Loader", "PenstockError", "PlanError", "ProcessError", "Profile", "RowGenerator", "SourceError",
    "StateError", "StorageError", "__version__", "col", "concat", "from_arrays", "from_dataset", "from_iterable", "from_ray", "from_tf_data", "from_torch", "image", "lit", "merge_states", "mix", "profile", "read", "read_sql", "read_stream", "register_format", "table", "text", "when", "zip",
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


@pytest.mark.parametrize("name", sorted(NAMES - {"__version__", "image", "table", "text"}))
def test_public_names_say_what_one_gets(name: str) -> None:
    thing = getattr(ps, name)
    assert len(inspect.getdoc(thing) or "") > 20
    if inspect.isclass(thing):
        for member, value in vars(thing).items():
            if not member.startswith("_") and (inspect.isfunction(value) or isinstance(value, property)):
                assert inspect.getdoc(value), f"{name}.{member}"


def callables() -> dict[str, Any]:
    """All that users call, by name: what `penstock` and its modules for frameworks offer, and the methods of classes."""
    found: dict[str, Any] = {}
    for module in (ps, ps.image, importlib.import_module("penstock.loader")):
        for name in getattr(module, "__all__", ["Loader"]):
            if callable(thing := getattr(module, name)) and not (
                isinstance(thing, type) and issubclass(thing, Exception)
            ):
                found[f"{module.__name__}.{name}"] = thing
                methods = inspect.getmembers(thing, callable) if inspect.isclass(thing) else []
                found |= {f"{module.__name__}.{name}.{method}": value for method, value in methods if method[0] != "_"}
    return found


def test_signatures_show_what_can_be_passed() -> None:
    """In `help`, in notebooks and in editors: no argument that is there to be refused, and every option of a Loader."""
    shown = {name: str(inspect.signature(thing)) for name, thing in callables().items()}
    assert len(shown) > 80
    assert {name: text for name, text in shown.items() if "Never" in text or "misplaced" in text} == {}
    assert str(inspect.signature(ps.Dataset.take)) == "(self, count: 'int') -> 'Dataset'"
    options = inspect.signature(ps.Loader).parameters
    assert [*options][:3] == ["dataset", "to", "device"]
    assert options["on_error"].default == "raise"
    assert all(options[name].kind is inspect.Parameter.KEYWORD_ONLY for name in [*options][1:])
    for option in options:
        assert f"{option}:" in pydoc.plain(pydoc.render_doc(ps.Loader))


def test_a_subclass_of_the_loader_shows_its_own_arguments() -> None:
    class Mine(ps.Loader):  # type: ignore[type-arg]
        def __init__(self, dataset: ps.Dataset, hint: str) -> None:
            super().__init__(dataset)
            self.hint = hint

    data = ps.from_arrays({"x": [1, 2]}).batch(2)
    assert [*inspect.signature(Mine).parameters] == ["dataset", "hint"]
    assert Mine(data, "soon").hint == "soon"
    isolated = ps.Loader(data, isolation="process")
    assert isinstance(isolated, ps.Loader)
    assert "isolation" not in vars(isolated)


def imported_by(code: str, modules: list[str]) -> str:
    code = f"import sys, penstock\n{code}\nprint([module for module in {modules} if module in sys.modules])"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_importing_is_light() -> None:
    """Names are imported when they are first used, and then no framework, nor what would import one (pyarrow.dataset imports pandas)."""
    assert imported_by("", ["numpy", "pyarrow", "penstock.dataset"]) == "[]"
    heavy = ["torch", "jax", "tensorflow", "PIL", "rich", "typer", "pandas", "pyarrow.dataset"]
    assert imported_by("penstock.read, penstock.Loader, penstock.image", heavy) == "[]"
    assert imported_by("from penstock import *", heavy) == "[]"


def test_reading_a_folder_imports_what_folders_need(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A quarter of a second, most of which are imports: no other format, no verb that is not called, and none of what Arrow brings if asked too much."""
    for number in range(300):
        (folder := tmp_path / "photos" / f"class {number % 3}").mkdir(parents=True, exist_ok=True)
        (folder / f"{number}.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "no checksums"))
    others = ["penstock.format.csv", "penstock.format.parquet", "penstock.inputs", "penstock.lower", "penstock.looking"]
    opened = f"photos = penstock.read({str(tmp_path / 'photos')!r})"
    shuffled = f"{opened}.shuffle(seed=0)"
    assert imported_by(shuffled, [*others, "pandas", "pyarrow.parquet", "pyarrow.fs", "asyncio"]) == "[]"
    later = [
        "penstock.resolve",
        "penstock.order",
        "penstock.transform",
        "penstock.storage.cache",
        "penstock.storage.fetch",
    ]
    assert imported_by(opened, [*later, "pyarrow.compute"]) == "[]"
    counted = f"{opened}\nprint(len([name for name in sys.modules if name.startswith('penstock')]))"
    assert int(imported_by(counted, []).split()[0]) <= 90


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
