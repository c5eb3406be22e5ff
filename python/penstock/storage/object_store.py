"""Object stores (S3 and compatibles, Google Cloud Storage, Azure) and HTTP, through obstore."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import obstore
from obstore import exceptions
from obstore.store import HTTPStore, from_url

from penstock.errors import DataError, SourceError, StorageError
from penstock.shards import Shards
from penstock.storage.aws_profile import check_environment, profile_settings
from penstock.storage.direct import Direct
from penstock.storage.forked import use_client
from penstock.storage.glob import Wanted
from penstock.storage.lane import ATTEMPT_TIMEOUT_S
from penstock.storage.listing import listed_objects, shards_of
from penstock.storage.own_hosts import REFUSED, bucket_region, only_own_hosts
from penstock.storage.retry import TransientError
from penstock.storage.shown import without_secrets
from penstock.storage.trust import NOBODY, Trust

#: Objects that one page of a listing names.
_PAGE = 1000

_AGAIN = "if the data was changed on purpose, open the dataset again"
_STATUS = re.compile(r"status code: (\d\d\d)")
_XML = re.compile(r"<Code>(.*?)</Code>.*?<Message>(.*?)</Message>", re.DOTALL)
#: Of a store's settings, those that say where it is.
_PUBLIC = ("bucket", "endpoint", "account_name", "container_name")
_TOOK = re.compile(r" in [\d.]+[nµm]?s - ")
_CREDENTIALS = "check the credentials and what they may read"
_NO_RANGES = "the server gives whole files only, not ranges of bytes; copy the files, or serve them with another server"
#: What never passes by itself, by what the message has; and what to do.
_REMEDIES = (
    ("RequestTimeTooSkewed", "this machine's clock is wrong: set it (NTP)"),
    ("ExpiredToken", "the credentials' time is over: get new ones"),
    ("TokenRefreshRequired", "the credentials' time is over: get new ones"),
    ("InvalidAccessKeyId", _CREDENTIALS),
    ("SignatureDoesNotMatch", "check the secret key"),
    ("redirect without LOCATION", "the bucket lies in another region{region}: set AWS_REGION"),
    ("Could not parse path", "name the object without its store, an empty part, '.', '..' and control characters"),
    (
        "with invalid path",
        "a key with an empty part, '.', '..' or a control character can be no path: rename the object, or read others",
    ),
    ("non-partial response", _NO_RANGES),
    ("Range request not supported", _NO_RANGES),
)
#: What the client knows of a request that it could not send, and tells only in its details.
_CAUSES = (
    ("failed to lookup address", "no such host"),
    ("ConnectionRefused", "connection refused"),
    ("InvalidCertificate", "the certificate is not trusted"),
)
_SLOW_DOWN = ("429", "503")
#: Of the statuses that blame the request, those that pass.
_PASSING = ("408", "425", "429")


class ObjectStore:
    """The objects of one bucket, container or server.

    `root` begins every path in messages: "s3://bucket/". `store` is an obstore store; its own retries should be off, since
    requests are retried here.
    """

    def __init__(
        self, store: Any, root: str, settings: Mapping[str, Any] | None = None, trust: Trust = NOBODY
    ) -> None:
        self._store, self._root, self._settings, self._trust = store, root, settings or {}, trust
        #: How the native client may ask for objects; None where it may not.
        self.direct = Direct.of(store, root)

    @classmethod
    def open(
        cls, url: str, config: Mapping[str, Any] | None = None, trust: Trust = NOBODY
    ) -> tuple[ObjectStore, str]:
        """The store that a URL names, and the path within it: "s3://bucket/train/*.tar" → (…, "train/*.tar").

        Credentials and endpoints come from the environment as usual (AWS_*, GOOGLE_*, AZURE_*), for S3 then from ~/.aws; `config`
        overrides them. Raises StorageError for settings that cannot be.
        """
        try:
            return cls._opened(url, config, trust)
        except (exceptions.BaseError, ValueError) as error:  # not one request was made: a setting, or the URL, is wrong
            found = without_secrets(str(error).partition("\n\nDebug source")[0])
            raise StorageError(
                f"{url}: {found}; check the URL, and the settings of this store in the environment"
            ) from None

    @classmethod
    def _opened(cls, url: str, config: Mapping[str, Any] | None, trust: Trust) -> tuple[ObjectStore, str]:
        parts = urlsplit(url)
        is_http = parts.scheme in ("http", "https")
        root = f"{parts.scheme}://{parts.netloc}/"
        options: Any = {"timeout": timedelta(seconds=ATTEMPT_TIMEOUT_S), "allow_http": True}
        no_retries: Any = {"max_retries": 0, "retry_timeout": timedelta(seconds=ATTEMPT_TIMEOUT_S)}
        path = url[len(root) :]
        if is_http:
            return cls(HTTPStore.from_url(root, client_options=options, retry_config=no_retries), root), path
        settings: Any = dict(config or {})
        credentials: Any = {}
        if parts.scheme in ("s3", "s3a"):
            check_environment()
            found, provider = profile_settings(settings)
            settings = found | settings
            credentials = {} if provider is None else {"credential_provider": provider}
        options |= only_own_hosts(parts, settings)
        store = from_url(root, config=settings, client_options=options, retry_config=no_retries, **credentials)
        return cls(store, root, settings, trust), path

    @property
    def root(self) -> str:
        """What the name of every file begins with."""
        return self._root

    @property
    def endpoint(self) -> str:
        """What tells this store from others with the same names: its kind, bucket and endpoint, and nothing secret."""
        config = getattr(self._store, "config", {})
        url = urlsplit(str(getattr(self._store, "url", "")))
        named = [str(config[key]) for key in _PUBLIC if config.get(key)]
        return " ".join([*named, url.hostname or "", url.path, str(getattr(self._store, "prefix", None) or "")])

    def list(self, where: str) -> Shards:
        """The objects below a prefix (a folder), of a glob, or the one of that name, in the order of their names."""
        wanted = Wanted(where)
        may_be_one = bool(where) and not where.endswith("/")
        if may_be_one and not wanted.is_glob and (one := self._head(where)) is not None:
            return shards_of(iter([[one]]), self._root, where.rpartition("/")[0])
        found = listed_objects(self._below, self._look_into, wanted, self._root)
        if not len(found) and may_be_one and wanted.is_glob and (one := self._head(where)) is not None:
            return shards_of(iter([[one]]), self._root, where.rpartition("/")[0])  # the name itself looks like a glob
        if not len(found):
            raise self._nothing(where)
        return found

    def get(self, path: str, etag: str, size: int, start: int, length: int) -> Any:
        """One request, without retries: `length` bytes of an object from `start`.

        Raises TransientError for what may pass, DataError if the object is gone or another one than was listed.
        """
        name = path[len(self._root) :]
        use_client("obstore", path)
        options: Any = {"range": (start, start + length)}
        if etag:
            options["if_match"] = etag
        try:
            answer = obstore.get(self._store, name, options=options)
            meta, data = answer.meta, memoryview(answer.bytes())
        except exceptions.PreconditionError:
            raise _another(path, etag) from None
        except FileNotFoundError:
            raise DataError(f"{path}: no such object any more; {_AGAIN}") from None
        except (exceptions.BaseError, OSError, ValueError) as error:
            raise self._told(path, error) from None
        if meta["size"] != size:
            raise DataError(f"{path}: {meta['size']:,} bytes now, {size:,} when it was listed; {_AGAIN}")
        if etag and _bare(meta["e_tag"]) != _bare(etag):  # not every server minds If-Match
            raise _another(path, etag)
        return data

    def _head(self, name: str) -> Any:
        use_client("obstore", self._root + name)
        try:
            return obstore.head(self._store, name)
        except FileNotFoundError:
            return None
        except (exceptions.BaseError, OSError, ValueError) as error:
            raise self._told(self._root + name, error) from None

    def _below(self, folder: str, after: str | None) -> Iterator[Sequence[Any]]:
        """Pages of the objects below a folder, behind a name; not every server knows to begin there."""
        use_client("obstore", self._root + folder)
        try:
            for page in obstore.list(self._store, prefix=folder or None, offset=after, chunk_size=_PAGE):
                yield page if after is None else [one for one in page if one["path"] > after]
        except (exceptions.BaseError, OSError, ValueError) as error:
            raise self._unlisted(folder, error) from None

    def _look_into(self, folder: str) -> tuple[Sequence[str], Sequence[Any]]:
        use_client("obstore", self._root + folder)
        try:
            found = obstore.list_with_delimiter(self._store, prefix=folder or None)
        except (exceptions.BaseError, OSError, ValueError) as error:
            raise self._unlisted(folder, error) from None
        return found["common_prefixes"], found["objects"]

    def _unlisted(self, folder: str, error: Exception) -> Exception:
        told = self._told(self._root + folder, error)
        is_http = self._root.startswith("http") and isinstance(told, StorageError)
        return self._nothing(folder) if is_http else told

    def _nothing(self, where: str) -> SourceError:
        if self._root.startswith("http"):
            return SourceError(
                f"{self._root}{where}: no such file, and this server lists none; name the files: a list of URLs, or "
                f"braces, as in train-{{000..099}}.tar"
            )
        return SourceError(f"{self._root}{where}: no such object, and none below it")

    def _told(self, path: str, error: Exception) -> Exception:
        """What went wrong as an error of ours; without the queries of URLs, which may hold signatures."""
        found = _TOOK.sub(": ", without_secrets(str(error).partition("\n\nDebug source")[0]))
        status = next(iter(_STATUS.findall(found)), "")
        found += "".join(f" ({cause})" for mark, cause in _CAUSES if mark in str(error))
        if told := _XML.search(found):
            found = f"{found[: found.find('<')].rstrip(' :')}: {told[1]}: {told[2]}"
        if REFUSED in str(error):
            return StorageError(
                f"{path}: the store sends this request on to another host, which does not get credentials; name the host that "
                f"answers as the endpoint, or pass storage= an obstore store"
            )
        remedy = self._remedy(found)
        if isinstance(error, (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError)):
            return StorageError(f"{path}: the store refuses: {found}; {remedy or _CREDENTIALS}")
        if remedy:
            return StorageError(f"{path}: {found}; {remedy}")
        if isinstance(error, exceptions.UnknownConfigurationKeyError):
            return StorageError(f"{path}: {found}; remove the setting")
        if status in ("401", "403"):
            return StorageError(f"{path}: the store refuses: {found}; {_CREDENTIALS}")
        if status.startswith("4") and status not in _PASSING:
            return StorageError(f"{path}: {found}; check the name, the endpoint and the region")
        slow_down = status in _SLOW_DOWN or "timed out" in found  # so many at once may be more than the line carries
        return TransientError(f"{path}: {found}", slow_down=slow_down)

    def _remedy(self, found: str) -> str:
        """What to do about an error that never passes by itself; "" for others."""
        remedy = next((text for mark, text in _REMEDIES if mark in found), "")
        if "{region}" not in remedy:
            return remedy
        region = bucket_region(urlsplit(self._root).netloc, self._settings)
        return remedy.format(region=f", {region}" if region else "") + (f"={region}" if region else "")


def _another(path: str, etag: str) -> DataError:
    return DataError(f"{path}: another object than when it was listed (its ETag is no longer {etag}); {_AGAIN}")


def _bare(etag: str | None) -> str:
    """An ETag without what listings leave out."""
    return (etag or "").removeprefix("W/").strip('"')
