"""The examples in docstrings are true: every `expression == value` of the package is evaluated in its module, and every Example section runs."""

from __future__ import annotations

import ast
import importlib.util
import re
import subprocess
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
import penstock.format as formats
from support.docstring_examples import (
    docstrings,
    example_names,
    example_of,
    is_equation,
    is_true,
    lay_out_files,
    run_example,
    without_example,
)

#: What examples in sentences may use besides the names of their module.
NAMES = {**vars(ps.image), "islice": islice, "np": np, "pa": pa, "ps": ps}
BEGINS = re.compile(r"^|(?<=: )|(?<=, )|(?<=; )")
ENDS = re.compile(r"$|[.,:;]")
#: Examples of frameworks that have threads from the first import on: they run in a process of their own, since others fork.
ALONE = re.compile(r"import (jax|tensorflow|penstock\.(?:jax|keras|tensorflow|ray))")


def comparison(text: str) -> bool:
    try:
        return is_equation(ast.parse(text, mode="eval").body)
    except SyntaxError:
        return False


def examples_in(line: str) -> list[str]:
    """What a line shows: examples_in("Squares: f(2) == 4, f(3) == 9.") gives two."""
    for begin in BEGINS.finditer(line):
        for end in sorted((match.start() for match in ENDS.finditer(line, begin.start())), reverse=True):
            if comparison(text := line[begin.start() : end]):
                return [text, *examples_in(line[end:].lstrip(",;. "))]
    return []


DOCSTRINGS = list(docstrings())
LINES = [
    (module, name, line)
    for module, name, text in DOCSTRINGS
    for line in without_example(text).splitlines()
    if " == " in line
]
EXAMPLES = [(module, name, example) for module, name, line in LINES for example in examples_in(line)]
SECTIONS = [(module, name, code) for module, name, text in DOCSTRINGS if (code := example_of(text))]


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
    # "Examples:" are those of commands, for a shell.
    sections = [text for _, _, text in DOCSTRINGS if re.search(r"^Example:", text, re.MULTILINE)]
    assert [text for text in sections if not example_of(text)] == [], "Example: and indented lines of code"


def test_a_wrong_example_is_found() -> None:
    assert examples_in('Words: f("a, b") == [1, 2], g(1) == "x. y".') == ['f("a, b") == [1, 2]', 'g(1) == "x. y"']
    names = {"f": np.arange}
    assert [is_true(example, names) for example in ("f(2) == [0, 1]", "f(2) == [0, 2]")] == [True, False]
    with pytest.raises(AssertionError, match="here: twice == 3"):
        run_example("twice = 2\ntwice == 3", "here", {})


@pytest.fixture
def begun(photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The names that examples begin with, in a folder with the files that they read."""
    lay_out_files(tmp_path, photos)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(formats, "_registered", [])
    return example_names()


@pytest.mark.parametrize(
    ("module", "name", "code"),
    [pytest.param(*one, id=".".join(one[:2])) for one in SECTIONS if not ALONE.search(one[2])],
)
def test_example_sections_run(module: str, name: str, code: str, begun: dict[str, Any]) -> None:
    pytest.importorskip(module, reason="what the module needs is not installed")
    run_example(code, f"{module}.{name}", begun)


@pytest.mark.trainers
def test_example_sections_of_frameworks_run(begun: dict[str, Any]) -> None:
    for name in ("jax", "keras", "orbax.checkpoint", "tensorflow"):
        if importlib.util.find_spec(name.partition(".")[0]) is None:
            pytest.skip(f"{name} is not installed")
    mine = [(f"{module}.{name}", code) for module, name, code in SECTIONS if ALONE.search(code)]
    assert len(mine) > 5
    program = (
        f"import sys\nsys.path.append({str(Path(__file__).parent)!r})\n"
        "from support.docstring_examples import example_names, run_example\n"
        f"for name, code in {mine!r}:\n"
        "    run_example(code, name, example_names())\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
