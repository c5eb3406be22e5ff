"""HDFS through hdfs-native, a client without Java, with the settings that Hadoop's own tools use."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from penstock.core.errors import SourceError, StorageError
from penstock.core.files.shards import Shards
from penstock.core.installing import pip_install
from penstock.core.lru import Lru
from penstock.storage.fetch.retry import TransientError
from penstock.storage.forked import use_client
from penstock.storage.glob import WantedFiles
from penstock.storage.stores.file_errors import changed, missing
from penstock.storage.stores.listing import shards_of_files

#: How many files stay open: an open one needs no call to the name node.
_OPEN_FILES = 1024
#: The client's own retries, enough to try each name node; `RemoteStorage` makes the others.
_FEW_RETRIES = {
    "dfs.client.failover.max.attempts": "4",
    "dfs.client.failover.sleep.base.millis": "100",
    "dfs.client.failover.sleep.max.millis": "1000",
}


class HdfsStore:
    """The files of one name node, name service (HA) or view of several; a file's modification time is its version.

    `root` begins every path in messages: "hdfs://namenode:8020/".
    """

    def __init__(self, client: Any, root: str) -> None:
        self._client, self._root = client, root
        self._open: Lru[tuple[str, str], Any] = Lru(_OPEN_FILES)

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process has a client of its own."""
        return _opened_again, (self._root,)

    @classmethod
    def open(cls, url: str) -> tuple[HdfsStore, str]:
        """The store that a URL names, and the path within it: "hdfs://namenode:8020/train/*.tar" → (…, "train/*.tar").

        The host may be a name service of $HADOOP_CONF_DIR; without one (hdfs:///train) it is fs.defaultFS.
        """
        try:
            from hdfs_native import Client
        except ModuleNotFoundError:
            raise SourceError(f"HDFS needs hdfs-native, which is not installed; {pip_install('hdfs-native')}") from None
        parts = urlsplit(url)
        root = f"{parts.scheme}://{parts.netloc}/"
        try:
            client = Client(f"{parts.scheme}://{parts.netloc}" if parts.netloc else None, config=_FEW_RETRIES)
        except (OSError, RuntimeError, ValueError) as error:
            found, do = _short_text(error), "check HADOOP_CONF_DIR and the name"
            if "fallback mount" in found:
                do = f"the client needs fs.viewfs.mounttable.{parts.netloc}.linkFallback in core-site.xml, besides its links"
            raise StorageError(f"{root}: {found}; {do}") from None
        return cls(client, root), url[len(root) :]

    @property
    def root(self) -> str:
        """The prefix of every file's name."""
        return self._root

    def list(self, where: str) -> Shards:
        """The files below a folder, of a glob, or the one of that name, in the order of their names."""
        use_client("hdfs-native", self._root + where)
        wanted = WantedFiles(where)
        folder = wanted.folder
        try:
            found = [one for one in self._client.list_status("/" + folder, recursive=True) if not one.isdir]
        except FileNotFoundError:
            found = []
        except (OSError, RuntimeError) as error:
            raise self._error_of(self._root + folder, error) from None
        alone = [one for one in found if one.path == "/" + folder]
        kept = alone or [one for one in found if wanted.has(one.path[1:], one.length)]
        files = ((one.path[1:], one.length, one.modification_time, str(one.modification_time)) for one in kept)
        return shards_of_files(files, self._root, where, folder)

    def get(self, path: str, etag: str, size: int, start: int, length: int) -> Any:
        """`length` bytes from `start`; DataError if the file is missing or has another size or time.

        An open file keeps its version, whatever happens to its name meanwhile.
        """
        use_client("hdfs-native", path)
        try:
            return self._reader(path, etag, size).read_range(start, length)
        except FileNotFoundError:
            self._open.drop((path, etag))
            raise missing(path) from None
        except (OSError, RuntimeError) as error:
            self._open.drop((path, etag))  # its blocks may have moved
            raise self._error_of(path, error) from None

    def _reader(self, path: str, etag: str, size: int) -> Any:
        """The open file of a version; DataError if the name now has another."""
        key = path, etag
        if (found := self._open.get(key)) is not None:
            return found
        name = path[len(self._root) - 1 :]
        reader = self._client.read(name)
        now = self._client.get_file_info(name)
        if (now.length, str(now.modification_time)) != (size, etag) or len(reader) != size:
            raise changed(path)
        return self._open.put(key, reader)

    def _error_of(self, path: str, error: Exception) -> Exception:
        found = _short_text(error)
        if isinstance(error, PermissionError) or "AccessControlException" in str(error):
            return StorageError(
                f"{path}: HDFS refuses: {found}; check the user (HADOOP_USER_NAME, kinit) and its permissions"
            )
        return TransientError(f"{path}: {found}")


def _short_text(error: Exception) -> str:
    """An error's text without Java's stack and the details of each data node."""
    text = str(error).replace("\\n", "\n").strip().partition("\n")[0].partition(": [")[0]
    for mark in ('RPCError("', 'DataTransferError("', 'InvalidArgument("'):
        text = text.removeprefix(mark)
    return text.replace('", "', ": ").removesuffix('")')[:300]


def _opened_again(root: str) -> HdfsStore:
    return HdfsStore.open(root)[0]
