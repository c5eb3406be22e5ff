"""Examples in docstrings: what stands below `Example:` is run, and a line `a == b` there is true."""

from __future__ import annotations

import ast
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import penstock as ps

PACKAGE = Path(ps.__file__).parent
GOLDEN = Path(__file__).parent.parent / "golden"
SECTION = re.compile(r"^Example:.*\n((?:(?: {4}.*)?\n)+)", re.MULTILINE)  # "Example: what it shows."


def docstrings() -> Iterator[tuple[str, str, str]]:
    """(module, name, docstring) of all modules, classes and functions; none is imported for it."""
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and (text := ast.get_docstring(node)):
                yield ".".join(parts).removesuffix(".__init__"), getattr(node, "name", "module"), text


def example_of(docstring: str) -> str:
    """The lines of its Example section; "" if there is none."""
    found = SECTION.search(f"{docstring}\n")
    return re.sub(r"^ {4}", "", found[1], flags=re.MULTILINE).strip() if found else ""


def without_example(docstring: str) -> str:
    """The rest of it."""
    return SECTION.sub("", f"{docstring}\n")


def is_equation(node: ast.AST) -> bool:
    """Whether it is `a == b`."""
    return isinstance(node, ast.Compare) and [type(op) for op in node.ops] == [ast.Eq]


def plain(value: Any) -> Any:
    """Arrays as lists, whatever they lie in."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, pa.Array):
        return value.to_pylist()
    if isinstance(value, Mapping):
        return {key: plain(one) for key, one in value.items()}
    return type(value)(map(plain, value)) if type(value) in (list, tuple) else value


def is_true(equation: str, names: dict[str, Any]) -> bool:
    """… at the end of a text stands for the rest of it."""
    tree = ast.parse(equation, mode="eval").body
    assert isinstance(tree, ast.Compare)
    found, wanted = (
        plain(eval(compile(ast.Expression(side), equation, "eval"), names)) for side in (tree.left, *tree.comparators)
    )
    if isinstance(wanted, str) and wanted.endswith("…"):
        return str(found).startswith(wanted.removesuffix("…"))
    return bool(found == wanted)


def example_names() -> dict[str, Any]:
    """What examples begin with; docs/api/index.md tells it to readers."""
    data = ps.from_arrays(
        {
            "x": np.arange(10),
            "label": np.arange(10) % 2,
            "text": [f"row {n}" for n in range(10)],
            "tokens": [[*range(n + 1)] for n in range(10)],
        }
    )
    return {"data": data, "np": np, "ps": ps}


def run_example(code: str, where: str, names: dict[str, Any]) -> None:
    """Runs the statements one after another; AssertionError for the first equation that is not true."""
    for statement in ast.parse(code).body:
        if isinstance(statement, ast.Expr) and is_equation(statement.value):
            shown = ast.get_source_segment(code, statement) or ""
            assert is_true(shown, names), f"{where}: {shown}"
        else:
            exec(compile(ast.Module([statement], []), where, "exec"), names)


def lay_out_files(folder: Path, photos: Path) -> None:
    """The files that examples of docstrings and pages read, in a folder to run them in."""
    (folder / "photos").symlink_to(photos)
    shutil.copy(GOLDEN / "tfrecord" / "docs.tfrecord", folder / "examples.tfrecord")
    shutil.copy(GOLDEN / "recordio" / "scalar.rec", folder / "train.rec")
    (folder / "mds").symlink_to(GOLDEN / "mds" / "packed-zstd")
    (folder / "litdata").symlink_to(GOLDEN / "litdata" / "items")
    (folder / "litdata-tokens").symlink_to(GOLDEN / "litdata" / "tokens")
