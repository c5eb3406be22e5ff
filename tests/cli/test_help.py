"""Help and errors of every command say all that was written: brackets are text, and no markup."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer

from penstock.cli import app
from support.cli_runner import invoke

PACKAGE = Path(__file__).parents[2]


def _commands(command: Any, *path: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield path, command
    for name, below in getattr(command, "commands", {}).items():
        yield from _commands(below, *path, name)


COMMANDS = dict(_commands(typer.main.get_command(app)))


def words(text: str) -> list[str]:
    """What a reader sees, whatever the terminal wraps and draws around it."""
    return [word for word in re.sub(r"[│╭╮╰╯─]", " ", text).split() if word]


def unmarked(text: str) -> str:
    return text.replace(r"\[", "[")


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_help_shows_every_word(path: tuple[str, ...]) -> None:
    command = COMMANDS[path]
    shown = words(invoke(*path, "--help").stdout)
    written = [command.help or "", *(getattr(option, "help", None) or "" for option in command.params)]
    assert written[0]
    for text in written:
        missing = [word for word in words(unmarked(text)) if word not in shown]
        assert not missing, text


def test_help_of_the_demo_says_what_to_install() -> None:
    shown = " ".join(words(invoke("demo", "--help").stdout))
    assert "pip install torch scikit-image scikit-learn pillow (or '.[demo]' in a checkout of Penstock)" in shown
    assert "[bold]" not in "".join(invoke(*path, "--help").stdout for path in COMMANDS)


@pytest.mark.parametrize("command", ["inspect", "explain", "simulate", "index", "bench", "verify"])
def test_errors_show_names_with_brackets(command: str, tmp_path: Path) -> None:
    for name in ("[demo]", "x[/]", "[bold]y[/bold]", "[red]z"):
        result = invoke(command, str(tmp_path / name))
        assert result.exit_code == 1
        assert name in "".join(result.stderr.split("\n")), name


@pytest.mark.parametrize("arguments", [("inspect",), ("bench", "x"), ("cache", "ls"), ("demo",), ("[nothing]",)])
def test_errors_of_options_show_brackets(arguments: tuple[str, ...]) -> None:
    result = invoke(*arguments, "--[bold]") if arguments[0] != "[nothing]" else invoke(*arguments)
    assert result.exit_code == 2
    assert ("[nothing]" if arguments[0] == "[nothing]" else "--[bold]") in result.stderr


def test_names_of_columns_show_brackets(tmp_path: Path) -> None:
    table = pa.table({"[bold]a[/]": pa.array([["[red]"], ["x[/]"]]), "tokens[demo]": np.zeros(2)})
    pq.write_table(table, tmp_path / "t.parquet")
    shown = invoke("inspect", str(tmp_path / "t.parquet")).stdout
    for text in ("[bold]a[/]", "tokens[demo]", "[red]", "x[/]"):
        assert text in shown


def test_what_to_install_is_named_by_itself() -> None:
    """No index may have Penstock, so that an extra of it is a dead end; each package is one of an extra."""
    found = set[str]()
    for file in (PACKAGE / "python" / "penstock").rglob("*.py"):
        text = file.read_text()
        assert "penstock[" not in text, file
        for given in re.findall(r"pip_install\(([^)]*)\)", text):
            found |= {name for name in re.findall(r"""["']([\w-]+)["']""", given) if not name.startswith("-")}
    with (PACKAGE / "pyproject.toml").open("rb") as lines:
        extras = tomllib.load(lines)["project"]["optional-dependencies"]
    known = {re.split(r"[>=<]", one)[0] for some in extras.values() for one in some}
    assert len(found) > 10
    assert found - {"boto3"} <= known
