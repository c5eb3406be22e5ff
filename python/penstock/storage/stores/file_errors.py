"""Turns errors of users' file systems into ours."""

from __future__ import annotations

from penstock.core.errors import DataError, SourceError, StorageError
from penstock.storage.fetch.retry import PASSING, TransientError
from penstock.storage.redact import without_secrets

#: What to do about a file that is not the one that was listed.
AGAIN = "if the data was changed on purpose, open the dataset again"


def missing(path: str) -> DataError:
    """The error for a file that was removed since it was listed."""
    return DataError(f"{path}: no such file any more; {AGAIN}")


def changed(path: str) -> DataError:
    """The error for a file that was replaced since it was listed."""
    return DataError(f"{path}: changed since it was listed; {AGAIN}")


def file_error(path: str, error: Exception) -> Exception:
    """The error to raise for a file system's error about a path; TransientError if it is worth a retry.

    Besides OSError these are errors of the client, which have no common classes; a status may identify them.
    """
    if isinstance(error, FileNotFoundError):
        return SourceError(f"{path}: no such file")
    found = without_secrets(f"{error}") or type(error).__name__
    status = getattr(error, "status", None)
    if isinstance(error, PermissionError) or status in (401, 403):
        return StorageError(f"{path}: the file system refuses: {found}; check your permissions")
    is_wrong = type(error).__module__ == "builtins" and not isinstance(error, OSError)
    if (
        is_wrong
        or isinstance(error, ValueError)
        or (isinstance(status, int) and 400 <= status < 500 and status not in PASSING)
    ):
        return StorageError(
            f"{path}: {type(error).__name__}: {found}; check the path, and the object passed as storage="
        )
    return TransientError(f"{path}: {found}")
