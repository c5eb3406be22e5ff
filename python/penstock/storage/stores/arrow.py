"""Any `pyarrow.fs.FileSystem` as a store: HadoopFileSystem where libhdfs is installed, S3, GCS, a user's own."""

from __future__ import annotations

from typing import Any, Never

import pyarrow as pa
from pyarrow import fs

from penstock.core.errors import not_to_be_sent
from penstock.core.files.shards import Shards
from penstock.storage.glob import WantedFiles
from penstock.storage.stores.file_errors import changed, file_error, missing
from penstock.storage.stores.listing import shards_of_files


class ArrowStore:
    """The files of an Arrow file system; a file's modification time is its version."""

    def __init__(self, filesystem: fs.FileSystem) -> None:
        self._filesystem = filesystem

    def __reduce__(self) -> Never:
        """See `not_to_be_sent`."""
        raise not_to_be_sent(f"the {type(self._filesystem).__name__} passed as storage=")

    @property
    def root(self) -> str:
        """The prefix of every file's name."""
        return f"{self._filesystem.type_name}://"

    def list(self, where: str) -> Shards:
        """The files below a folder, of a glob, or the one of that name, in the order of their names."""
        wanted = WantedFiles(where)
        try:
            found = self._files(wanted)
        except (OSError, pa.ArrowException) as error:
            raise file_error(wanted.folder, error) from None
        files = ((one.path, one.size, one.mtime_ns or 0, _version(one)) for one in found)
        return shards_of_files(files, self.root, where, wanted.folder)

    def get(self, path: str, etag: str, size: int, start: int, length: int) -> Any:
        """One read of `length` bytes from `start`; DataError if the file is missing or has another size or time."""
        name, failed, data = path.removeprefix(self.root), None, None
        try:
            with self._filesystem.open_input_file(name) as file:
                data = memoryview(file.read_at(length, start))
        except (OSError, pa.ArrowException) as error:
            failed = error
        try:
            now = self._filesystem.get_file_info(name)
        except (OSError, pa.ArrowException) as error:
            raise file_error(path, failed or error) from None
        # Checked after reading, so that it holds for what was read.
        if now.type != fs.FileType.File:
            raise missing(path)
        if (now.size, _version(now)) != (size, etag):
            raise changed(path)
        if failed is not None:
            raise file_error(path, failed) from None
        return data

    def _files(self, wanted: WantedFiles) -> tuple[Any, ...]:
        one = self._filesystem.get_file_info(wanted.folder) if wanted.folder else None
        if one is not None and one.type == fs.FileType.File:
            return (one,)
        selected = fs.FileSelector(wanted.folder, recursive=True, allow_not_found=True)
        found = self._filesystem.get_file_info(selected)
        return tuple(one for one in found if one.type == fs.FileType.File and wanted.has(one.path, one.size))


def _version(one: Any) -> str:
    return str(one.mtime_ns or "")
