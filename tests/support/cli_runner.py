"""Runs a command of the command line inside the test's process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from penstock.cli import app

#: 8 records with JPEGs, class labels and boxes, written by TensorFlow.
GOLDEN_PICTURES = Path(__file__).parent.parent / "golden" / "tfrecord" / "images.tfrecord"


def invoke(*arguments: str) -> Any:
    """The result, with stdout, stderr and exit_code; errors that no user should see are raised here."""
    result = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "120", "NO_COLOR": "1", "TERM": "dumb"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result
