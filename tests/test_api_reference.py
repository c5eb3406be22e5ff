"""The API reference has every public name, and each says what it does, what its arguments are, and shows an example, which test_docstrings.py runs."""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
import tomllib
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import penstock as ps
from support.docstring_examples import example_of

ROOT = Path(__file__).parent.parent
SCRIPT = ROOT / "scripts" / "api_reference.py"
IMPORT = re.compile(r"^(?:import|from) (penstock\.[\w.]+)(?: import (.+?))?(?:  #.*)?$", re.MULTILINE)


@cache
def reference() -> ModuleType:
    spec = importlib.util.spec_from_file_location("api_reference", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    sys.modules["api_reference"] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def entries() -> dict[str, Any]:
    """All that the reference shows, by name."""
    package = reference().load()
    return {one.name: one for page in reference().PAGES.values() for one in reference().entries_of(package, page)}


@cache
def pages() -> dict[str, str]:
    made: dict[str, str] = reference().pages()
    return made


def classes() -> dict[str, str]:
    """The docstrings of classes, by name."""
    return {name: text_of(one) for name, one in entries().items() if one.thing.is_class}


def text_of(entry: Any) -> str:
    return entry.thing.docstring.value if entry.thing.docstring else ""


def called_in(code: str) -> set[str]:
    """The methods that an example calls."""
    return {node.attr for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Attribute)}


def problems_of(entry: Any) -> list[str]:
    """What a public name lacks."""
    text, found = text_of(entry), list[str]()
    if len(text.partition("\n")[0]) < 10 or not re.match(r"[^\n]+[.:](\n\n|$)", text):
        found.append("a summary, one line that ends with a full stop")
    wanted = {one.name for one in entry.parameters}
    told = {one.name.lstrip("*"): one.description for one in entry.section("parameters") or ()}
    found += [f"a description of {name}" for name in sorted(wanted) if not told.get(name)]
    found += [f"an argument {name}, which is described" for name in sorted(told.keys() - wanted)]
    class_name, _, name = entry.name.rpartition(".")
    is_shown = entry.depth and name in called_in(example_of(classes().get(class_name, "")))
    if (entry.thing.is_class or (entry.thing.is_function and (wanted or not entry.depth))) and not is_shown:
        found += [] if example_of(text) else ["an example"]
    return found


@pytest.mark.slow
def test_every_public_name_has_a_page() -> None:
    for name in {*ps.__all__} - {"__version__"}:
        if isinstance(getattr(ps, name), ModuleType):
            assert any(one.startswith(f"penstock.{name}.") for one in entries()), f"a page with penstock.{name}.*"
        else:
            assert f"penstock.{name}" in entries()


def test_whatever_the_documentation_imports_has_a_page() -> None:
    texts = [
        page.read_text(encoding="utf-8") for page in [*(ROOT / "docs").glob("*.md"), *(ROOT / "examples").glob("*.py")]
    ]
    found = [one for text in texts for one in IMPORT.findall(text)]
    assert len(found) > 5
    for module, names in found:
        if module == "penstock.core":  # docs/jpeg.md shows the kernels themselves, and says that they may change
            continue
        for name in names.split(", ") if names else [""]:
            assert any(one.startswith(f"{module}.{name}") for one in entries()), f"{module}.{name}"


def test_every_public_name_says_what_it_does_and_shows_it() -> None:
    missing = {name: found for name, one in entries().items() if (found := problems_of(one))}
    assert not missing, "\n".join(f"{name} needs {' and '.join(found)}" for name, found in missing.items())


def test_what_is_left_out_is_there() -> None:
    """Names that left a module's `__all__` leave the exceptions, too."""
    package = reference().load()
    for module, names in reference().NOT_FOR_USERS.items():
        home = package[reference().HOMES.get(module, module).removeprefix("penstock.")]
        assert names <= {str(one) for one in home.exports}
    shorts = {one.short.rpartition(".")[2] for one in entries().values()}
    assert shorts >= reference().RECEIVED | reference().WITHOUT_METHODS


def test_a_name_without_a_description_is_found() -> None:
    griffe = pytest.importorskip("griffe")
    code = 'def f(a, b=1):\n    """Adds.\n\n    Args:\n        a: the first.\n        c: gone.\n    """\n'
    with griffe.temporary_visited_module(code) as module:
        entry = reference().Entry(name="penstock.f", thing=module["f"])
        assert problems_of(entry) == [
            "a summary, one line that ends with a full stop",
            "a description of b",
            "an argument c, which is described",
            "an example",
        ]
        assert entry.code == "penstock.f(a, b=1)"


def test_pages_are_in_the_navigation() -> None:
    nav = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]["nav"]
    (listed,) = [entry["API reference"] for entry in nav if "API reference" in entry]
    assert [path for one in listed for path in one.values()] == [f"api/{name}" for name in pages()]
    assert "scripts/api_reference.py docs/api" in (ROOT / "Makefile").read_text(encoding="utf-8")


def test_links_of_pages_lead_to_what_is_there() -> None:
    headings = {name: re.findall(r"^#+ (.+)$", text, re.MULTILINE) for name, text in pages().items()}
    anchors = {name: {re.sub(r"[^\w-]", "", one).lower() for one in found} for name, found in headings.items()}
    assert "datasetshuffle" in anchors["dataset.md"]
    for text in pages().values():
        for page, _, anchor in (target.partition("#") for target in re.findall(r"\]\(([^)\s]+\.md[^)\s]*)\)", text)):
            assert page in pages() or (ROOT / "docs" / "api" / page).resolve().exists(), page
            assert not anchor or anchor in anchors[page], f"{page}#{anchor}"


def test_the_index_tells_what_examples_begin_with() -> None:
    import numpy as np

    from support.docstring_examples import example_names, plain

    (code,) = re.findall(r"```python\n(.*?)```", pages()["index.md"], re.DOTALL)
    names: dict[str, Any] = {"ps": ps, "np": np}
    exec(code, names)
    assert plain(names["data"].head(10)) == plain(example_names()["data"].head(10))
