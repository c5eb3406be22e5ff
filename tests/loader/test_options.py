"""What a loader is told: one class, from which its signature, its documentation and a child's options come."""

from __future__ import annotations

import ast
import inspect
import re
from dataclasses import MISSING, fields
from typing import Any

import pytest

import penstock as ps
from penstock.loader.options import GivenOptions, LoaderOptions

DATA = ps.from_arrays({"x": [1, 2, 3, 4]}).batch(2)


def lines_of(cls: type) -> dict[str, str]:
    """The fields of a class and their types, as its source has them."""
    tree = ast.parse(inspect.getsource(cls)).body[0]
    assert isinstance(tree, ast.ClassDef)
    return {
        ast.unparse(line.target): ast.unparse(line.annotation) for line in tree.body if isinstance(line, ast.AnnAssign)
    }


def described() -> dict[str, str]:
    """The arguments that the docstring of `Loader` describes."""
    section = (inspect.getdoc(ps.Loader) or "").partition("Args:\n")[2].partition("\n\n")[0]
    return dict(re.findall(r"^    (\w+): (.+)$", section, re.MULTILINE))


def test_type_checkers_see_the_same_options() -> None:
    """All but `structure`, by which overloads tell the type of the batches."""
    wanted = lines_of(LoaderOptions)
    assert wanted.pop("structure") == "Structures | type[Any]"
    assert lines_of(GivenOptions) == wanted


def test_the_signature_is_made_of_them() -> None:
    shown = inspect.signature(ps.Loader).parameters
    assert [*shown] == ["dataset", *(one.name for one in fields(LoaderOptions))]
    assert {one.name: one.default for one in fields(LoaderOptions)} == {
        name: parameter.default for name, parameter in shown.items() if name != "dataset"
    }
    assert all(one.default is not MISSING for one in fields(LoaderOptions))


def test_each_has_its_line_with_its_default() -> None:
    told = described()
    assert [*told] == ["dataset", *(one.name for one in fields(LoaderOptions))]
    for one in fields(LoaderOptions):
        _, found, default = told[one.name].partition("Default: ")
        assert found, one.name
        if one.default is not None:
            assert default.lstrip('"').startswith(str(one.default).removesuffix(".0")), one.name


def test_a_child_is_told_what_it_needs_to_make_batches() -> None:
    told = LoaderOptions(to="torch", rank=1, world_size=2, memory="1GB", prefetch=3, on_error="skip", ledger="folder")
    assert told.sent == {
        "memory": "1GB",
        "cpus": None,
        "prefetch": 3,
        "epochs": None,
        "watchdog": 60.0,
        "on_error": "skip",
        "max_errors": 1000,
        "quarantine": None,
    }
    assert LoaderOptions(**told.sent).memory_bytes == told.memory_bytes == 10**9


class Exports:
    """An exporter, if one is made of it."""

    def write(self, snapshot: object, events: object) -> None:
        pass

    def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"cpus": 0}, "cpus=0; at least one thread must work, and a whole number"),
        ({"prefetch": 1.5}, "prefetch=1.5; at least one batch must be made ahead"),
        ({"epochs": 0}, "epochs=0; at least one pass must be made"),
        ({"memory": 0}, "memory=0; batches made ahead take some bytes"),
        ({"equal_parts": 1}, "equal_parts=1; choose True or False"),
        (
            {"observe": [Exports]},
            "test_options.Exports'>; pass names of exporters, such as 'jsonl:run.jsonl', or objects",
        ),
        ({"isolation": "thread"}, "isolation='thread'; choose 'process'"),
    ],
)
def test_what_cannot_work(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ps.PlanError, match=re.escape(said)):
        LoaderOptions(**wrong)
    with pytest.raises(ps.PlanError, match=re.escape(said)):
        ps.Loader(DATA, **wrong)


def test_an_option_that_is_not_there() -> None:
    with pytest.raises(TypeError, match=re.escape("Loader.__init__() got an unexpected keyword argument 'prefetches'")):
        ps.Loader(DATA, prefetches=1)  # type: ignore[call-overload]
    with pytest.raises(
        TypeError, match=re.escape("Loader.__init__() missing 1 required positional argument: 'dataset'")
    ):
        ps.Loader(to="torch")  # type: ignore[call-overload]
