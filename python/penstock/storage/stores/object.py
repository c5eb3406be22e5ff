"""Object stores (S3 and compatibles, Google Cloud Storage, Azure) and HTTP, through obstore."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import obstore
from obstore import exceptions
from obstore.store import HTTPStore, from_url

from penstock.core.errors import DataError, SourceError, StorageError, not_to_be_sent
from penstock.core.files.shards import Shards
from penstock.core.warnings import warn
from penstock.storage.fetch.retry import ATTEMPT_TIMEOUT_S, WrongAnswerError
from penstock.storage.forked import use_client
from penstock.storage.glob import WantedFiles
from penstock.storage.redact import hide, without_secrets
from penstock.storage.stores.auth.aws_profile import check_environment, profile_settings
from penstock.storage.stores.auth.credentials import check_credentials
from penstock.storage.stores.auth.own_hosts import REFUSED, bucket_region, only_own_hosts
from penstock.storage.stores.auth.relay import REFUSALS
from penstock.storage.stores.auth.signed_urls import SignedUrls
from penstock.storage.stores.errors import store_error
from penstock.storage.stores.file_errors import AGAIN
from penstock.storage.stores.http import PlainHttp, odd_answer
from penstock.storage.stores.listing import listed_objects, shards_of
from penstock.storage.stores.version import conditions, is_version, shown
from penstock.storage.trust import NOBODY, Trust

#: Objects in one page of a listing.
_PAGE = 1000

#: obstore's error for a response without a length.
_NO_LENGTH = "Content-Length Header missing"
_REFUSALS = (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError)
#: Its error for redirects that it followed in vain, without their targets.
_ENDLESS = "error following redirect"
#: The settings of a store that hold its location.
_PUBLIC = ("bucket", "endpoint", "account_name", "container_name")


class _Plain:
    """Our own requests for responses that obstore does not read (see `http`), and whether to make all requests so."""

    def __init__(self, urls: SignedUrls, root: str, *, has_trusted: bool) -> None:
        self._urls, self._root, self._has_trusted = urls, root, has_trusted
        self._http = PlainHttp(urls.follow, odd_answer if urls.is_plain else _never_odd, ATTEMPT_TIMEOUT_S)
        self._is_needed = False

    def url(self, name: str, error: Exception | None = None) -> str | None:
        """The client to use instead of obstore: because of its error, or because the last one showed that it cannot read the response."""
        return self._urls.url(name) if self._is_needed or self._helps(error) else None

    def _helps(self, error: Exception | None) -> bool:
        """Whether another client may avoid this error, or can say more about it."""
        found = str(error)
        is_lost = isinstance(error, _REFUSALS)  # obstore drops the signature when it follows a redirect
        return any(mark in found for mark in (REFUSED, *REFUSALS, _NO_LENGTH, _ENDLESS)) or (
            self._has_trusted and is_lost
        )

    def get(self, path: str, url: str, etag: str, start: int, length: int) -> tuple[Any, Any]:
        """See `PlainHttp.get`: an object's metadata, and some bytes of it; FileNotFoundError is a DataError."""
        try:
            answer = self._http.get(path, url, etag, start, length)
        except FileNotFoundError:
            raise _missing(path) from None
        self._is_needed = True
        return answer.meta, answer.data

    def head(self, name: str, url: str) -> Any:
        """Like obstore's; None if there is no such object."""
        try:
            return self._http.get(self._root + name, url, "", 0, 1).meta | {"path": name}
        except FileNotFoundError:
            return None


class ObjectStore:
    """The objects of one bucket, container or server.

    `root` begins every path in messages: "s3://bucket/". `store` is an obstore store; its own retries should be off, since
    requests are retried here.
    """

    def __init__(self, store: Any, root: str, settings: Mapping[str, Any] | None = None, trust: Trust = NOBODY) -> None:
        self._store, self._root, self._settings, self._trust = store, root, settings or {}, trust
        self._is_http = root.startswith("http")
        self._has_warned = False
        #: The URLs for the native client; None if it cannot be used.
        self.urls = SignedUrls.of(store, root, trust)
        self._plain: _Plain | None = None
        self._config: Mapping[str, Any] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process opens it anew, with the credentials of its own environment, unless the user opened it."""
        if self._plain is None:
            raise not_to_be_sent(f"the {type(self._store).__name__} passed as storage=")
        return _opened_again, (self._root, self._config, self._trust)

    @classmethod
    def open(cls, url: str, config: Mapping[str, Any] | None = None, trust: Trust = NOBODY) -> tuple[ObjectStore, str]:
        """The store that a URL names, and the path within it: "s3://bucket/train/*.tar" → (…, "train/*.tar").

        Credentials and endpoints come from the environment as usual (AWS_*, GOOGLE_*, AZURE_*), for S3 then from ~/.aws; `config`
        overrides them. Raises StorageError for invalid settings.
        """
        try:
            return cls._opened(url, config, trust)
        except (exceptions.BaseError, ValueError) as error:  # no request was made: a setting, or the URL, is wrong
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
            return cls._own(HTTPStore.from_url(root, client_options=options, retry_config=no_retries), root), path
        settings: Any = dict(config or {})
        credentials: Any = {}
        if parts.scheme in ("s3", "s3a"):
            check_environment()
            found, provider = profile_settings(settings)
            settings = found | settings
            hide(settings)
            credentials = {} if provider is None else {"credential_provider": provider}
        options |= only_own_hosts(parts, settings)
        store = from_url(root, config=settings, client_options=options, retry_config=no_retries, **credentials)
        if not credentials:
            check_credentials(root, settings)
        return cls._own(store, root, settings, trust, config), path

    @classmethod
    def _own(
        cls,
        store: Any,
        root: str,
        settings: Mapping[str, Any] | None = None,
        trust: Trust = NOBODY,
        config: Mapping[str, Any] | None = None,
    ) -> ObjectStore:
        made = cls(store, root, settings, trust)
        made._config = config
        made._plain = _Plain(SignedUrls.of_own(store, root, trust), root, has_trusted=bool(trust.hosts))
        return made

    @property
    def root(self) -> str:
        """The prefix of every file's name."""
        return self._root

    @property
    def endpoint(self) -> str:
        """Identifies this store among others with the same names: its kind, bucket and endpoint, without secrets."""
        config = getattr(self._store, "config", {})
        url = urlsplit(str(getattr(self._store, "url", "")))
        named = [str(config[key]) for key in _PUBLIC if config.get(key)]
        return " ".join([*named, url.hostname or "", url.path, str(getattr(self._store, "prefix", None) or "")])

    def list(self, where: str) -> Shards:
        """The objects below a prefix (a folder), of a glob, or the one of that name, in the order of their names."""
        wanted = WantedFiles(where)
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

        Raises TransientError for errors worth a retry, DataError if the object is missing or has changed since it was listed.
        """
        meta, data = self._got(path, path[len(self._root) :], etag, start, length)
        if meta["size"] != size:
            raise DataError(f"{path}: {meta['size']:,} bytes now, {size:,} when it was listed; {AGAIN}")
        self._check_version(path, meta, etag)
        return data

    def _got(self, path: str, name: str, etag: str, start: int, length: int) -> tuple[Any, Any]:
        """An object's metadata, and some bytes of it."""
        if self._plain is not None and (url := self._plain.url(name)) is not None:
            return self._plain.get(path, url, etag, start, length)
        use_client("obstore", path)
        options: Any = {"range": (start, start + length), **conditions(etag)}
        try:
            answer = obstore.get(self._store, name, options=options)
            meta, data = answer.meta, memoryview(answer.bytes())
        except exceptions.PreconditionError:
            raise _another(path, etag) from None
        except FileNotFoundError:
            raise _missing(path) from None
        except (exceptions.BaseError, OSError, ValueError) as error:
            if self._plain is not None and (url := self._plain.url(name, error)) is not None:
                return self._plain.get(path, url, etag, start, length)
            raise self._error_of(path, error) from None
        if self._is_http and (odd := odd_answer(name, answer.attributes)):
            raise WrongAnswerError(f"{path}: {odd}")
        return meta, data

    def _check_version(self, path: str, meta: Any, version: str) -> None:
        """Warn once if the server may ignore conditions."""
        is_same = is_version(meta, version)
        if is_same is None:
            self._warn_of_dates(path)
        elif not is_same:
            raise _another(path, version)

    def _warn_of_dates(self, path: str) -> None:
        if not self._has_warned:
            self._has_warned = True
            warn(
                f"{path}: the server's listing has a modification time, but its responses do not: a file that is replaced by "
                f"another of the same size while it is read is noticed only if the server obeys If-Unmodified-Since; configure it to send ETags"
            )

    def _head(self, name: str) -> Any:
        use_client("obstore", self._root + name)
        try:
            return obstore.head(self._store, name)
        except FileNotFoundError:
            return None
        except (exceptions.BaseError, OSError, ValueError) as error:
            if self._plain is not None and (url := self._plain.url(name, error)) is not None:
                return self._plain.head(name, url)
            raise self._error_of(self._root + name, error) from None

    def _below(self, folder: str, after: str | None) -> Iterator[Sequence[Any]]:
        """Pages of the objects below a folder, after a name; not every server can start there."""
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
        found = self._error_of(self._root + folder, error)
        return self._nothing(folder) if self._is_http and isinstance(found, StorageError) else found

    def _nothing(self, where: str) -> SourceError:
        if self._is_http:
            return SourceError(
                f"{self._root}{where}: no such file, and this server has no listings; name the files: a list of URLs, or "
                f"braces, as in train-{{000..099}}.tar"
            )
        return SourceError(f"{self._root}{where}: no such object, and none below it")

    def _error_of(self, path: str, error: Exception) -> Exception:
        return store_error(path, error, self._root, self._region if self._root.startswith("s3") else None)

    def _region(self) -> str:
        return bucket_region(urlsplit(self._root).netloc, self._settings)


def _never_odd(_: str, __: Mapping[str, str]) -> str:
    """Nothing is odd: a store's headers are those that were stored with the object."""
    return ""


def _missing(path: str) -> DataError:
    return DataError(f"{path}: no such object any more; {AGAIN}")


def _another(path: str, etag: str) -> DataError:
    return DataError(f"{path}: another object than when it was listed ({shown(etag)}); {AGAIN}")


def _opened_again(root: str, config: Mapping[str, Any] | None, trust: Trust) -> ObjectStore:
    return ObjectStore.open(root, config, trust)[0]
