"""The set-up's steps show a line each; what their commands print goes to a log."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent / "scripts" / "quietly.sh"


@pytest.fixture
def quietly(tmp_path: Path) -> Path:
    """The script in a tree of its own."""
    (tmp_path / "scripts").mkdir()
    return Path(shutil.copy(SCRIPT, tmp_path / "scripts"))


def run(script: Path, command: str) -> subprocess.CompletedProcess:
    step = [script, "step", "Doing it (long)", "sh", "-c", command]
    return subprocess.run(step, capture_output=True, encoding="utf-8", check=False, timeout=60)


def on_terminal(script: Path, command: str, *, interrupt: bool = False, **variables: str) -> tuple[str, int]:
    """What a terminal gets, and how the script ended; `interrupt` types Ctrl-C once the command has begun."""
    spawn = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))"
    step = [sys.executable, "-c", spawn, script, "step", "Doing it (long)", "sh", "-c", command]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(step, **pipes, env=os.environ | variables) as terminal:
        shown = b""
        while part := terminal.stdout.read1():
            shown += part
            if interrupt and b"begun" in shown:
                terminal.stdin.write(b"\x03")
                terminal.stdin.flush()
                interrupt = False
    return shown.decode(), terminal.returncode


def test_what_a_command_prints_is_in_the_log_only(quietly: Path, tmp_path: Path) -> None:
    done = run(quietly, "echo printed; echo complained >&2")
    assert (done.returncode, done.stdout, done.stderr) == (0, "Doing it (long)\n", "")
    assert (tmp_path / "target" / "setup" / "step.log").read_text() == "printed\ncomplained\n"


def test_a_failure_shows_the_end_of_the_log_and_its_name(quietly: Path) -> None:
    done = run(quietly, "seq 100; echo broken >&2; exit 7")
    assert done.returncode == 7
    assert done.stdout == "Doing it (long)\n"
    first, *log, last = done.stderr.splitlines()
    assert first.startswith("Doing it: failed after ")
    assert first.endswith("with exit status 7")
    assert log == [f"    {line}" for line in [*range(72, 101), "broken"]]
    assert last == "Doing it: failed; the whole log is target/setup/step.log"


@pytest.mark.slow
def test_a_terminal_shows_the_time_and_what_is_being_done(quietly: Path) -> None:
    shown, status = on_terminal(quietly, "echo Compiling penstock; sleep 3.5")
    assert status == 0
    drawn = [line for line in shown.split("\r\x1b[K") if "Compiling penstock" in line]
    assert drawn
    assert all(line.startswith("Doing it: ") for line in drawn)
    assert shown.split("\r\x1b[K")[-1].startswith("Doing it: done after ")


@pytest.mark.slow
def test_steps_side_by_side_do_not_redraw_lines(quietly: Path) -> None:
    shown, status = on_terminal(quietly, "sleep 1.5", MAKEFLAGS=" -j2 --jobserver-auth=3,4")
    assert (shown, status) == ("Doing it (long)\r\n", 0)


@pytest.mark.slow
def test_ctrl_c_ends_the_command(quietly: Path, tmp_path: Path) -> None:
    began_at = time.monotonic()
    shown, status = on_terminal(quietly, f"echo begun; sleep 60; touch {tmp_path}/finished", interrupt=True)
    assert status == 130
    assert "failed" not in shown
    assert time.monotonic() - began_at < 50
    assert not (tmp_path / "finished").exists()
