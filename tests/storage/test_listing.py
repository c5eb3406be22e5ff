"""Listings of many pages: whole, in order, and on from where they failed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from penstock.core.errors import StorageError
from penstock.storage.fetch.remote import RemoteStorage
from penstock.storage.fetch.retry import Retry, TransientError
from penstock.storage.glob import WantedFiles
from penstock.storage.stores.listing import listed_objects
from penstock.storage.stores.object import ObjectStore
from servers.pages import PAGE, name_of, pages_server
from servers.s3 import CREDENTIALS
from support.faulty_proxy import Faults, proxy

#: Listings of so many objects, and the share of requests that fail.
LISTINGS = {100_500: 0.1, 20_500: 0.0}


@pytest.fixture
def credentials(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    return monkeypatch


@pytest.mark.slow
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
        with pytest.raises(StorageError, match=r"s3://data/p: .*500.*the last retry failed"):
            storage.list("p/")


def pages_of(names: Sequence[str]) -> list[dict[str, Any]]:
    return [{"path": name, "size": 1, "e_tag": f'"{name}"', "last_modified": None} for name in names]


def no_folders(_: str) -> tuple[list[str], list[Any]]:
    raise AssertionError("a page that is not full is all there is")


def test_a_store_that_does_not_sort_is_never_resumed() -> None:
    """Behind a name there would be others than those that are missing."""
    opened: list[str | None] = []

    def pages(_: str, after: str | None) -> Iterator[list[dict[str, Any]]]:
        opened.append(after)
        yield pages_of(["d", "b"])
        raise TransientError("a reset")

    with pytest.raises(TransientError):
        listed_objects(pages, no_folders, WantedFiles(""), "s3://data/")
    assert opened == [None]


def test_pages_in_any_order_are_sorted() -> None:
    shards = listed_objects(
        lambda *_: iter([pages_of(["c", "a"]), pages_of([]), pages_of(["b"])]),
        no_folders,
        WantedFiles(""),
        "s3://data/",
    )
    assert shards.paths.to_pylist() == ["s3://data/a", "s3://data/b", "s3://data/c"]
    assert shards.etags is not None
    assert shards.etags.to_pylist() == ['"a"', '"b"', '"c"']


class Tree:
    """Keys, listed as S3 does; notes which folders were listed, and which looked into."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names, self.opened, self.looked = sorted(names), list[str](), list[str]()

    def below(self, folder: str, after: str | None) -> Iterator[list[dict[str, Any]]]:
        self.opened.append(folder)
        found = [one for one in self.names if one.startswith(folder and folder + "/") and one > (after or "")]
        for first in range(0, len(found), PAGE):
            yield pages_of(found[first : first + PAGE])

    def look_into(self, folder: str) -> tuple[list[str], list[Any]]:
        self.looked.append(folder)
        start = folder and folder + "/"
        rest = [one[len(start) :] for one in self.names if one.startswith(start)]
        folders = sorted({start + one.partition("/")[0] for one in rest if "/" in one})
        return folders, pages_of([start + one for one in rest if "/" not in one])

    def listed(self, where: str) -> list[str]:
        """All that is found, whose order and ETags are right."""
        shards = listed_objects(self.below, self.look_into, WantedFiles(where), "s3://data/")
        assert shards.etags is not None
        found = [path.removeprefix("s3://data/") for path in shards.paths.to_pylist()]
        assert shards.etags.to_pylist() == [f'"{name}"' for name in found]
        return found


def numbered(folder: str, count: int) -> list[str]:
    return [f"{folder}/{number:05}.jpg" for number in range(count)]


def test_large_folders_are_listed_at_once() -> None:
    tree = Tree(
        [*numbered("a/train/cat", 2_500), *numbered("a/train/dog", 10), *numbered("a/train/ox/y", 3), "a/train/z.txt"]
    )
    assert tree.listed("a/") == tree.names
    assert tree.looked == ["a", "a/train"]
    assert sorted(tree.opened) == ["a", "a/train/cat", "a/train/dog", "a/train/ox"]
    assert tree.listed("a/train/*/*2.jpg") == [
        name for name in tree.names if name.endswith("2.jpg") and "/y/" not in name
    ]


@pytest.mark.parametrize(
    "names", [numbered("a", 2_500), [f"a/{n:04}/{m}.jpg" for n in range(700) for m in range(3)], numbered("a/b", 2_500)]
)
def test_one_folder_and_many_small_ones_are_listed_in_turn(names: list[str]) -> None:
    tree = Tree(names)
    assert tree.listed("a") == tree.names
    assert tree.opened == ["a"]


def test_what_goes_wrong_in_one_folder_is_raised() -> None:
    tree = Tree([*numbered("cat", 1_000), *numbered("dog", 1_000)])

    def below(folder: str, after: str | None) -> Iterator[list[dict[str, Any]]]:
        if folder == "dog":
            raise StorageError("no permission")
        return tree.below(folder, after)

    with pytest.raises(StorageError, match="no permission"):
        listed_objects(below, tree.look_into, WantedFiles(""), "s3://data/")
