"""Runs a command of the command line inside the test's process."""

from __future__ import annotations

from typing import Any

from typer.testing import CliRunner

from penstock.cli import app


def invoke(*arguments: str) -> Any:
    """The result, with stdout, stderr and exit_code; errors that no user should see are raised here."""
    result = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "120", "NO_COLOR": "1", "TERM": "dumb"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result
