"""Stores that answer from other hosts than they are asked at, as AIStore does: a gateway sends each request on to a target."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, quote, unquote, urlsplit

import pytest

import penstock as ps
from penstock.core.errors import StorageError
from servers.s3 import CREDENTIALS
from servers.scripted import WHEN, Asked, Script, scripted

TOKEN = "a-token-that-only-the-store-may-see"
FILES = {
    f"train/part {number}.txt": b"".join(b"%d.%03d\n" % (number, row) for row in range(500)) for number in range(6)
}


def listing(asked: Asked) -> bytes | None:
    prefix = parse_qs(urlsplit(asked.path).query).get("prefix", [""])[0]
    objects = "".join(
        f"<Contents><Key>{name}</Key><LastModified>2026-11-21T00:00:00.000Z</LastModified><ETag>&quot;a&quot;</ETag>"
        f"<Size>{len(data)}</Size><StorageClass>STANDARD</StorageClass></Contents>"
        for name, data in FILES.items()
        if name.startswith(prefix)
    )
    body = f"<ListBucketResult><Name>data</Name><IsTruncated>false</IsTruncated>{objects}</ListBucketResult>"
    return asked.answer(200, body.encode(), "content-type: application/xml")


def target(asked: Asked) -> bytes | None:
    """Gives objects only to requests that are signed, by the query or by headers, and that a gateway has sent."""
    url = urlsplit(asked.path)
    query, data = parse_qs(url.query), FILES.get(unquote(url.path.removeprefix("/data/")))
    is_signed = "X-Amz-Signature" in query and query.get("X-Amz-Security-Token") == [TOKEN]
    if not is_signed or query.get("pid") != ["gateway"]:
        return asked.answer(403, b"", f"last-modified: {WHEN}")
    return asked.answer(404) if data is None else asked.part(data)


@dataclass
class Cluster:
    """A gateway, two targets, and a server that is none of them."""

    gateway: Script
    targets: tuple[Script, Script]
    thief: Script


@contextlib.contextmanager
def cluster(where: Callable[[Asked, list[str]], str], host: str) -> Iterator[Cluster]:
    """`where` says to which URL a request is sent on, of those of the targets and of the thief."""
    with contextlib.ExitStack() as stack:
        targets = stack.enter_context(scripted(target)), stack.enter_context(scripted(target))
        thief = stack.enter_context(scripted(lambda asked: asked.part(b"stolen")))
        places = [f"http://{host}:{one.port}" for one in (*targets, thief)]

        def answer(asked: Asked) -> bytes | None:
            if urlsplit(asked.path).path.strip("/") == "data":
                return listing(asked)
            return asked.answer(307, b"", f"location: {where(asked, places)}")

        yield Cluster(stack.enter_context(scripted(answer)), targets, thief)


def by_name(asked: Asked) -> int:
    return sum(urlsplit(asked.path).path.encode()) % 2


def with_query(asked: Asked, places: list[str]) -> str:
    mark = "&" if "?" in asked.path else "?"
    return f"{places[by_name(asked)]}{asked.path}{mark}pid=gateway&utm=1"


def without_query(asked: Asked, places: list[str]) -> str:
    return f"{places[by_name(asked)]}{urlsplit(asked.path).path}?pid=gateway"


def to_the_thief(asked: Asked, places: list[str]) -> str:
    return places[2] + asked.path


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for name, value in (CREDENTIALS | {"AWS_SESSION_TOKEN": TOKEN}).items():
        monkeypatch.setenv(name, value)


def rows_of(dataset: ps.Dataset) -> list[str]:
    with ps.Loader(dataset.shuffle(seed=0).batch(50)) as loader:
        return sorted(row for batch in loader for row in batch["text"].to_pylist())


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
@pytest.mark.parametrize("where", [with_query, without_query])
def test_trusted_targets_get_the_signature(
    where: Callable[[Asked, list[str]], str], host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with cluster(where, host) as found:
        monkeypatch.setenv("AWS_ENDPOINT_URL", found.gateway.url)
        trusted = [f"{host}:{one.port}" for one in found.targets]
        dataset = ps.read("s3://data/train", trusted_hosts=trusted)
        assert rows_of(dataset) == sorted(b"".join(FILES.values()).decode().split())
        assert all(one.asked for one in found.targets)
        single = ps.read("s3://data/train/part 3.txt", trusted_hosts=f"{host}:*")
        assert len(single) == 500, "one object is looked up, and not listed"


@pytest.mark.parametrize("trusted", [[], ["target-*"], ["localhost:1"]])
def test_others_are_refused_with_the_way_out(trusted: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with cluster(with_query, "localhost") as found:
        monkeypatch.setenv("AWS_ENDPOINT_URL", found.gateway.url)
        for where in ("s3://data/train", "s3://data/train/part 3.txt"):
            with pytest.raises(StorageError, match=r"another host, localhost.*pass trusted_hosts=\['localhost") as told:
                ps.read(where, trusted_hosts=trusted)
            assert TOKEN not in str(told.value)
        assert not found.targets[0].asked + found.targets[1].asked


def test_trust_in_targets_is_none_in_others(monkeypatch: pytest.MonkeyPatch) -> None:
    with cluster(to_the_thief, "localhost") as found:
        monkeypatch.setenv("AWS_ENDPOINT_URL", found.gateway.url)
        trusted = [f"localhost:{one.port}" for one in found.targets]
        for where in ("s3://data/train", "s3://data/train/part 3.txt"):
            with pytest.raises(StorageError, match="another host, localhost"):
                ps.read(where, trusted_hosts=trusted)
        assert not found.thief.asked


def test_a_gateway_that_sends_on_to_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    with cluster(lambda asked, _: asked.path, "localhost") as found:
        monkeypatch.setenv("AWS_ENDPOINT_URL", found.gateway.url)
        with pytest.raises(StorageError, match="endless redirects: ") as told:
            ps.read("s3://data/train")
        assert TOKEN not in str(told.value)
        assert "Signature" not in str(told.value)
        assert len(found.gateway.asked) < 60


def test_a_plain_server_may_send_on_to_anywhere() -> None:
    """Nothing secret goes along; the native client follows by itself."""
    data = FILES["train/part 1.txt"]
    with (
        scripted(lambda asked: asked.part(data)) as other,
        scripted(
            lambda asked: asked.answer(302, b"", f"location: http://localhost:{other.port}/x?sig={quote('a b')}")
        ) as first,
    ):
        dataset = ps.read(f"{first.url}/a.txt")
        before = len(first.asked)
        assert rows_of(dataset) == sorted(data.decode().split())
        assert len(first.asked) - before == len(other.asked) - before <= 2, (
            "each request is made once, and sent on once"
        )
