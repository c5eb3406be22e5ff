"""What holds for every command: help that teaches, errors without traceback, a quiet end on Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from penstock.cli.console import size_text
from support.cli_runner import invoke

COMMANDS = ["inspect", "explain", "index", "bench", "demo"]
PATH_COMMANDS = ["inspect", "explain", "index", "bench"]


def test_help_lists_all_commands() -> None:
    result = invoke("--help")
    assert result.exit_code == 0
    assert all(command in result.stdout for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_examples(command: str) -> None:
    result = invoke(command, "--help")
    assert result.exit_code == 0
    assert "Examples:" in result.stdout
    assert f"    penstock {command}" in result.stdout


def test_version() -> None:
    assert invoke("--version").stdout.startswith("penstock 0.")


@pytest.mark.parametrize("command", PATH_COMMANDS)
def test_a_missing_path_is_a_message_and_status_1(command: str) -> None:
    result = invoke(command, "no/such/place")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith("penstock: no/such/place: no such file or folder")
    assert "Traceback" not in result.stderr


def test_a_wrong_option_is_status_2(photos: Path) -> None:
    assert invoke("bench", str(photos), "--ops", "nonsense").exit_code == 2


def test_a_damaged_picture_is_named(photos: Path, tmp_path: Path) -> None:
    bad = tmp_path / "cats" / "bad.jpg"
    bad.parent.mkdir()
    bad.write_bytes(next(photos.rglob("*.jpg")).read_bytes()[:200])
    result = invoke("bench", str(tmp_path), "--seconds", "0.2")
    assert result.exit_code == 1
    assert str(bad) in result.stderr
    assert "stage 'transform'" in result.stderr


@pytest.mark.slow
def test_the_entry_point_has_no_traceback() -> None:
    command = [sys.executable, "-c", "from penstock.cli import main; main()", "index", "no/such/place"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert ended.stdout == ""
    assert ended.stderr.startswith("penstock: no/such/place")


@pytest.mark.slow
def test_a_warning_shows_no_code(tmp_path: Path) -> None:
    (tmp_path / "cache").write_bytes(b"")  # where a folder should be
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    records = Path(__file__).parent.parent / "golden" / "tfrecord" / "images.tfrecord"
    command = [sys.executable, "-m", "penstock", "index", str(records)]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert ended.stderr.startswith(f"penstock: no cache: {tmp_path / 'cache'}")
    assert "warn(" not in ended.stderr + ended.stdout


@pytest.mark.slow
def test_the_module_is_the_command() -> None:
    command = [sys.executable, "-m", "penstock", "--version"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.startswith("penstock ")


@pytest.mark.slow
def test_a_terminal_that_cannot_show_a_name(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "日本").mkdir()
    (tmp_path / "日本" / "1.jpg").write_bytes(next(photos.rglob("*.jpg")).read_bytes())
    command = [sys.executable, "-m", "penstock", "inspect", str(tmp_path)]
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert ended.returncode == 0, ended.stderr
    assert "??" in ended.stdout


@pytest.mark.slow
def test_ctrl_c_ends_quietly_with_130(photos: Path, tmp_path: Path) -> None:
    code = "from penstock.cli import main; main()"
    command = [sys.executable, "-c", code, "bench", str(photos), "--seconds", "600", "--batch", "8"]
    environment = os.environ | {"PENSTOCK_OBSERVE_DIR": str(tmp_path)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as running:
        try:
            while running.poll() is None and not [*tmp_path.glob("*.snapshot.json")]:  # its loader runs
                time.sleep(0.05)
            os.kill(running.pid, signal.SIGINT)
            _, complaints = running.communicate(timeout=60)
        finally:
            running.kill()
    assert running.returncode == 130
    assert complaints.strip() == ""


def test_sizes_for_people() -> None:
    assert [size_text(n) for n in (0, 999, 1_000, 1_234_567, 10**12)] == [
        "0 bytes",
        "999 bytes",
        "1.0 kB",
        "1.2 MB",
        "1.0 TB",
    ]
