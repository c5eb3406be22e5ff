"""The examples in docstrings are true: every `expression == value` of the package is evaluated in its module."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps

PACKAGE = Path(ps.__file__).parent
#: What examples may use besides the names of their module.
NAMES = {**vars(ps.image), "islice": islice, "np": np, "pa": pa, "ps": ps}
BEGINS = re.compile(r"^|(?<=: )|(?<=, )|(?<=; )")
ENDS = re.compile(r"$|[.,:;]")


def docstrings() -> Iterator[tuple[str, str, str]]:
    """(module, name, docstring) of all modules, classes and functions; none is imported for it."""
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and (text := ast.get_docstring(node)):
                yield ".".join(parts).removesuffix(".__init__"), getattr(node, "name", "module"), text


def comparison(text: str) -> bool:
    try:
        tree = ast.parse(text, mode="eval").body
    except SyntaxError:
        return False
    return isinstance(tree, ast.Compare) and [type(op) for op in tree.ops] == [ast.Eq]


def examples_in(line: str) -> list[str]:
    """What a line shows: examples_in("Squares: f(2) == 4, f(3) == 9.") gives two."""
    for begin in BEGINS.finditer(line):
        for end in sorted((match.start() for match in ENDS.finditer(line, begin.start())), reverse=True):
            if comparison(text := line[begin.start() : end]):
                return [text, *examples_in(line[end:].lstrip(",;. "))]
    return []


DOCSTRINGS = list(docstrings())
LINES = [(module, name, line) for module, name, text in DOCSTRINGS for line in text.splitlines() if " == " in line]
EXAMPLES = [(module, name, example) for module, name, line in LINES for example in examples_in(line)]


def plain(value: Any) -> Any:
    """Arrays as lists, whatever they lie in."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, pa.Array):
        return value.to_pylist()
    if isinstance(value, Mapping):
        return {key: plain(one) for key, one in value.items()}
    return type(value)(map(plain, value)) if type(value) in (list, tuple) else value


def is_true(example: str, names: dict[str, Any]) -> bool:
    """… at the end of a text stands for the rest of it."""
    tree = ast.parse(example, mode="eval").body
    assert isinstance(tree, ast.Compare)
    found, wanted = (
        plain(eval(compile(ast.Expression(side), example, "eval"), names)) for side in (tree.left, *tree.comparators)
    )
    if isinstance(wanted, str) and wanted.endswith("…"):
        return str(found).startswith(wanted.removesuffix("…"))
    return bool(found == wanted)


@pytest.mark.parametrize(("module", "name", "example"), EXAMPLES)
def test_examples_are_true(module: str, name: str, example: str) -> None:
    found = pytest.importorskip(module, reason="what the module needs is not installed")
    assert is_true(example, {**NAMES, **vars(found)}), f"{module}.{name}: {example}"


def test_no_example_is_overlooked() -> None:
    assert len(EXAMPLES) >= 40
    for module, name, line in LINES:
        rest = line
        for example in examples_in(line):
            rest = rest.replace(example, "")
        assert " == " not in rest, f"{module}.{name}: write the example so that it can be evaluated"
    assert not [(module, name) for module, name, text in DOCSTRINGS if ">>>" in text], "write f(x) == y instead"


def test_a_wrong_example_is_found() -> None:
    assert examples_in('Words: f("a, b") == [1, 2], g(1) == "x. y".') == ['f("a, b") == [1, 2]', 'g(1) == "x. y"']
    names = {"f": np.arange}
    assert [is_true(example, names) for example in ("f(2) == [0, 1]", "f(2) == [0, 2]")] == [True, False]
