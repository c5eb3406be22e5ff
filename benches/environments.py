"""Makes the peers' virtual environments: python benches/environments.py [pytorch ffcv …]; all of them unless named.

Each peer's pins are benches/peers/requirements/<peer>.txt. A second file <peer>.source.txt lists what is built from source against the first. uv is used where it
is installed (its cache is shared between environments, so PyTorch is on the disk once), pip otherwise.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from work import HERE, environment, interpreter, work_folder

REQUIREMENTS = HERE / "peers" / "requirements"


def names() -> list[str]:
    """Every environment there is a requirements file for: the peers, and "data"."""
    return sorted(path.stem for path in REQUIREMENTS.glob("*.txt") if not path.stem.endswith(".source"))


def ready(name: str) -> bool:
    """Made already, from the pins as they are now."""
    mark = environment(name) / "pins.txt"
    return mark.exists() and mark.read_text() == pins(name)


def pins(name: str) -> str:
    """The text of an environment's requirements, both files."""
    return "".join(path.read_text() for path in _files(name))


def ensure(name: str) -> str:
    """Make an environment unless it is ready; returns "" or, in one line, why it can't be made."""
    if ready(name):
        return ""
    started = time.monotonic()
    print(f"{name}: installing {', '.join(pins(name).split())} …", flush=True)
    shutil.rmtree(environment(name), ignore_errors=True)
    for command in _commands(name):
        done = subprocess.run(command, env=_surroundings(), capture_output=True, text=True, check=False)
        if done.returncode:
            return _reason(name, command, done.stdout + done.stderr)
    (environment(name) / "pins.txt").write_text(pins(name))
    print(f"{name}: ready in {time.monotonic() - started:.0f} s", flush=True)
    return ""


def _files(name: str) -> list[Path]:
    return [path for path in (REQUIREMENTS / f"{name}.txt", REQUIREMENTS / f"{name}.source.txt") if path.exists()]


def _commands(name: str) -> list[list[str]]:
    """The command lines that make an environment, first to last."""
    python, uv = str(interpreter(name)), shutil.which("uv")
    if uv:
        make, install = (
            [uv, "venv", "--quiet", "--python", sys.executable],
            [uv, "pip", "install", "--quiet", "--python", python],
        )
    else:
        make, install = [sys.executable, "-m", "venv"], [python, "-m", "pip", "install", "--quiet"]
    first, *sources = _files(name)
    built = [[*install, "--no-build-isolation", "--no-deps", "-r", str(source)] for source in sources]
    return [[*make, str(environment(name))], [*install, "-r", str(first)], *built]


def _surroundings() -> dict[str, str]:
    """The environment variables of an installation: the project's own constraints do not hold for the peers."""
    kept = {
        key: value for key, value in os.environ.items() if key not in {"PIP_CONSTRAINT", "VIRTUAL_ENV", "PYTHONPATH"}
    }
    if "PIP_CERT" in kept:
        kept.setdefault("SSL_CERT_FILE", kept["PIP_CERT"])
    return kept


def _reason(name: str, command: list[str], output: str) -> str:
    """The last line that tells something; all of it goes to a log file."""
    log = work_folder() / "log" / f"install-{name}.txt"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text(f"{' '.join(command)}\n{output}")
    lines = (
        [line.strip() for line in output.splitlines() if "error" in line.lower()]
        or output.strip().splitlines()
        or ["no output"]
    )
    return f"could not be installed: {lines[-1][:200]} (all of it: {log})"


def main() -> int:
    """The command line: 1 if any environment could not be made."""
    parser = argparse.ArgumentParser(description="Make the peers' virtual environments.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which; all unless given: {', '.join(names())}")
    wanted = parser.parse_args().names or names()
    if unknown := set(wanted) - set(names()):
        parser.error(f"no requirements for {', '.join(sorted(unknown))}; there are {', '.join(names())}")
    failed = 0
    for name in wanted:
        reason = ensure(name)
        failed += bool(reason)
        print(f"{name}: skipped, it {reason}" if reason else f"{name}: {environment(name)}")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
