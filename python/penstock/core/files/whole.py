"""Files that users asked for: whole, or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from penstock.core.errors import PlanError


def write_whole(path: Path, content: bytes) -> None:
    """Writes a file beside its place and moves it there, so that who interrupts it finds the old one, or none; straight to what is no plain file, as /dev/stdout.

    Raises PlanError where it cannot be written.
    """
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(content)
        else:
            _move_there(os.path.realpath(path), content)
    except OSError as error:
        raise PlanError(f"{path}: {error.strerror}; name a file that can be written") from None


def _move_there(place: str, content: bytes) -> None:
    folder, name = os.path.split(place)
    handle, beside = tempfile.mkstemp(dir=folder, prefix=f".{name[:100]}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            os.fchmod(file.fileno(), _mode_of(place))
        os.replace(beside, place)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        raise


def _mode_of(place: str) -> int:
    """That of the file that is there, else what a new one gets."""
    with contextlib.suppress(OSError):
        return os.stat(place).st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
