"""What the errors of file systems mean that others wrote."""

from __future__ import annotations

from penstock.errors import SourceError, StorageError
from penstock.storage.retry import TransientError


def file_error(path: str, error: OSError) -> Exception:
    """The error to raise for what a file system said of a path; TransientError where another attempt may go well."""
    if isinstance(error, FileNotFoundError):
        return SourceError(f"{path}: no such file")
    if isinstance(error, PermissionError):
        return StorageError(f"{path}: the file system refuses: {error}; check what you may read")
    return TransientError(f"{path}: {error}")
