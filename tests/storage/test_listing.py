"""Listings of many pages: whole, in order, and on from where they failed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from faults.proxy import Faults, proxy
from penstock.errors import StorageError
from penstock.storage.glob import Wanted
from penstock.storage.listing import listed_objects
from penstock.storage.object_store import ObjectStore
from penstock.storage.remote import RemoteStorage
from penstock.storage.retry import Retry, TransientError
from servers.pages import PAGE, name_of, pages_server
from servers.s3 import CREDENTIALS

#: Listings of so many objects, and the share of requests that fail.
LISTINGS = {100_500: 0.1, 20_500: 0.0}


@pytest.fixture
def credentials(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    return monkeypatch


@pytest.mark.parametrize("objects", LISTINGS)
def test_many_objects(objects: int, credentials: pytest.MonkeyPatch) -> None:
    share = LISTINGS[objects]
    faults = Faults(share=share, kinds=("500", "503", "reset", "cut"), seed=3)
    with pages_server(objects) as server, proxy(server, faults) as port:
        credentials.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
        shards = RemoteStorage(ObjectStore.open("s3://data/")[0]).list("p/")
    assert len(shards) == objects
    assert shards.path(17_000) == f"s3://data/{name_of(17_000)}"
    assert shards.sizes.tolist() == list(range(1, objects + 1))
    assert shards.etags is not None
    assert str(shards.etags[objects - 1]) == f'"{objects - 1:032x}"'
    assert sum(faults.counts.values()) <= 1.3 * objects / PAGE + 2
    assert (share == 0) == (faults.counts.total() == faults.counts["none"])


def test_a_glob_keeps_what_it_asks_for(credentials: pytest.MonkeyPatch) -> None:
    with pages_server(5_000) as port:
        credentials.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
        shards = RemoteStorage(ObjectStore.open("s3://data/")[0]).list("p/*77.jpg")
    assert shards.paths.to_pylist() == [f"s3://data/{name_of(number)}" for number in range(77, 5_000, 100)]


def test_a_store_that_goes_away_is_told(credentials: pytest.MonkeyPatch) -> None:
    faults = Faults(share=0.9, kinds=("500",), seed=1)
    with pages_server(5_000) as server, proxy(server, faults) as port:
        credentials.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
        storage = RemoteStorage(ObjectStore.open("s3://data/")[0], list_retry=Retry(first_s=0.01, deadline_s=0.3))
        with pytest.raises(StorageError, match=r"s3://data/p: .*500.*given up after the last retry"):
            storage.list("p/")


def pages_of(names: Sequence[str]) -> list[dict[str, Any]]:
    return [{"path": name, "size": 1, "e_tag": f'"{name}"', "last_modified": None} for name in names]


def test_a_store_that_does_not_sort_is_never_resumed() -> None:
    """Behind a name there would be others than those that are missing."""
    opened: list[str | None] = []

    def pages(after: str | None) -> Iterator[list[dict[str, Any]]]:
        opened.append(after)
        yield pages_of(["d", "b"])
        raise TransientError("a reset")

    with pytest.raises(TransientError):
        listed_objects(pages, Wanted(""), "s3://data/")
    assert opened == [None]


def test_pages_in_any_order_are_sorted() -> None:
    shards = listed_objects(
        lambda _: iter([pages_of(["c", "a"]), pages_of([]), pages_of(["b"])]), Wanted(""), "s3://data/"
    )
    assert shards.paths.to_pylist() == ["s3://data/a", "s3://data/b", "s3://data/c"]
    assert shards.etags is not None
    assert shards.etags.to_pylist() == ['"a"', '"b"', '"c"']
