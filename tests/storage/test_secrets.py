"""Nothing secret in anything that the library says or keeps: secrets are planted wherever users have them, and looked for everywhere."""

from __future__ import annotations

import json
import logging
import os
import pickle
import re
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote
from urllib.request import getproxies

import pytest
from fsspec.implementations.memory import MemoryFileSystem
from obstore.store import S3Store

import penstock as ps
from penstock.core.errors import PenstockError
from penstock.storage.fetch import remote
from penstock.storage.redact import without_secrets
from servers.scripted import WHEN, Asked, scripted
from support.cli_runner import invoke
from support.matrix import crossed

#: With signs that URLs and expressions have a meaning for.
PLANTED = {
    "AWS_ACCESS_KEY_ID": "PLANTEDACCESSKEYID",
    "AWS_SECRET_ACCESS_KEY": "planted+secret/access=key",
    "AWS_SESSION_TOKEN": "planted/session+token==",
    "AZURE_STORAGE_ACCOUNT_KEY": "cGxhbnRlZGFjY291bnRrZXk=",
    "AZURE_STORAGE_SAS_TOKEN": "sv=2024-11-04&sig=planted%2Bsas",
    "GOOGLE_BEARER_TOKEN": "planted.bearer.token",
    "HF_TOKEN": "hf_planted_token",
}
LOGIN, PASSWORD, OPTION = "planted-user-token", "planted-password", "planted-storage-option"
DATA = b"".join(b"line %03d\n" % number for number in range(300))


def needles() -> list[str]:
    values = [*PLANTED.values(), LOGIN, PASSWORD, OPTION]
    return [form for value in values for form in (value, quote(value, safe=""), quote(value))]


@pytest.fixture(autouse=True)
def planted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in getproxies():
        monkeypatch.delenv(f"{name}_proxy", raising=False)
        monkeypatch.delenv(f"{name.upper()}_PROXY", raising=False)
    for name, value in PLANTED.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for retry in (remote.LIST_RETRY, remote.READ_RETRY):
        monkeypatch.setitem(retry.__dict__, "deadline_s", 0.2)


class Said:
    """Everything that came out so far."""

    def __init__(self) -> None:
        self.parts: list[str] = []

    def error(self, call: Callable[[], Any]) -> str:
        try:
            call()
        except PenstockError as error:
            found = "".join(traceback.format_exception(error))
            self.parts += [str(error), repr(error), found, *getattr(error, "__notes__", ())]
            return str(error)
        raise AssertionError("nothing went wrong")

    def dataset(self, dataset: ps.Dataset) -> None:
        plan = dataset.shuffle(seed=0).batch(10)
        self.parts += [repr(dataset), repr(plan), plan.explain(), repr(plan.simulate()), repr(plan.__dict__), str(plan)]
        with ps.Loader(plan) as loader:
            assert len(list(loader)) == 30
            self.parts += [repr(loader), json.dumps(loader.state_dict()), loader.report(), repr(loader.stats())]
        try:
            self.parts.append(pickle.dumps(dataset).decode("latin-1"))
        except (TypeError, AttributeError, ps.ProcessError) as error:
            self.parts.append(str(error))

    def command(self, *arguments: str) -> None:
        result = invoke(*arguments)
        self.parts += [result.stdout, result.stderr]

    def files(self, folder: Path) -> None:
        for path in folder.rglob("*"):
            content = path.read_bytes().translate(None, b"\0") if path.is_file() else b""  # packs are mostly holes
            self.parts += [str(path), content.decode("latin-1")]

    def check(self) -> None:
        text = "\n".join(self.parts)
        assert [needle for needle in needles() if needle in text] == []
        assert re.findall(r"(?:Signature|\bsig)=(?!…).{0,20}", text) == []


@pytest.fixture
def said(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    recwarn: pytest.WarningsRecorder,
) -> Iterator[Said]:
    """Checks all of it at the end, with logs, warnings, what was printed, and files of the cache."""
    caplog.set_level(logging.DEBUG)
    warnings.simplefilter("always")
    found = Said()
    yield found
    found.files(tmp_path)
    found.parts += [caplog.text, *capfd.readouterr(), *(str(one.message) for one in recwarn)]
    found.check()


def everything(asked: Asked) -> str:
    """All that a server has seen of us, as hostile ones and web frameworks in debug mode give it back."""
    return json.dumps([asked.path, dict(asked.headers), *PLANTED.values(), *map(quote, PLANTED.values())])


def answered(asked: Asked, status: int, *lines: str) -> bytes | None:
    return asked.answer(status, everything(asked).encode(), "content-type: text/plain", *lines)


def as_xml(asked: Asked) -> bytes | None:
    text = everything(asked).replace("&", "&amp;").replace("<", "&lt;")
    body = f"<Error><Code>AccessDenied</Code><Message>{text}</Message><AWSAccessKeyId>{PLANTED['AWS_ACCESS_KEY_ID']}</AWSAccessKeyId></Error>"
    return asked.answer(403, body.encode(), "content-type: application/xml")


FAILURES: dict[str, Callable[[Asked], bytes | None]] = {
    "400": lambda asked: answered(asked, 400),
    "401": lambda asked: answered(asked, 401),
    "403": lambda asked: answered(asked, 403),
    "403 in XML": as_xml,
    "404": lambda asked: answered(asked, 404),
    "412": lambda asked: answered(asked, 412),
    "429": lambda asked: answered(asked, 429),
    "500": lambda asked: answered(asked, 500),
    "503": lambda asked: answered(asked, 503),
    "200": lambda asked: answered(asked, 200, f"last-modified: {WHEN}"),
    "redirect": lambda asked: asked.answer(307, b"", f"location: http://other.invalid{asked.path}"),
    "redirect to itself": lambda asked: asked.answer(307, b"", f"location: {asked.path}"),
    "redirect to nowhere": lambda asked: answered(asked, 307),
    "redirect to a login": lambda asked: asked.answer(
        307, b"", f"location: http://{LOGIN}:{PASSWORD}@127.0.0.1:1/?token={PASSWORD}"
    ),
    "wrong range": lambda asked: asked.answer(
        206, b"x", "content-range: bytes 7-7/9", f"etag: {PASSWORD}", f"last-modified: {WHEN}"
    ),
    "no HTTP": lambda asked: f"{everything(asked)}\r\n\r\n".encode(),
    "nothing": lambda _: None,
}


def stores(port: int) -> dict[str, tuple[str, dict[str, str]]]:
    """URLs, and what the environment says of their stores."""
    at = f"http://{LOGIN}:{PASSWORD}@127.0.0.1:{port}"
    plain = f"http://127.0.0.1:{port}"
    azure = {"AZURE_STORAGE_ACCOUNT_NAME": "account", "AZURE_STORAGE_ENDPOINT": plain}
    return {
        "s3": ("s3://data/a.txt", {"AWS_ENDPOINT_URL": plain}),
        "s3 with a login": ("s3://data/a.txt", {"AWS_ENDPOINT_URL": at}),
        "s3 behind a proxy": ("s3://data/a.txt", {"AWS_ENDPOINT_URL": "http://store.invalid", "http_proxy": at}),
        "gs": ("gs://data/a.txt", {"GOOGLE_BASE_URL": plain}),
        "az": ("az://data/a.txt", azure),
        "http": (f"{plain}/a.txt", {}),
        "http behind a proxy": ("http://store.invalid/a.txt", {"http_proxy": at}),
    }


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "store"), crossed([*FAILURES], [*stores(0)]))
def test_failures_show_no_secret(kind: str, store: str, said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    with scripted(FAILURES[kind]) as server:
        url, environment = stores(server.port)[store]
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
            if name.endswith("_proxy"):
                monkeypatch.setenv(name.upper(), value)
        found = said.error(lambda: ps.read(url))
        said.error(lambda: ps.read(url.rpartition("/")[0]))
        assert url.partition("://")[0] in found, "it says where"


@pytest.mark.parametrize("store", [name for name in stores(0) if "proxy" not in name])
def test_servers_that_are_not_there(store: str, said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    for host in ("127.0.0.1:1", "no-such-host.invalid"):
        url, environment = stores(1)[store]
        for name, value in environment.items():
            monkeypatch.setenv(name, value.replace("127.0.0.1:1", host))
        said.error(lambda url=url, host=host: ps.read(url.replace("127.0.0.1:1", host)))


LOGINS = (
    f"https://{LOGIN}@127.0.0.1:1/a.txt",
    f"http://{LOGIN}:{PASSWORD}@127.0.0.1:1/a.txt",
    f"https://127.0.0.1:1/a.txt?sig={PASSWORD}&X-Amz-Signature={PASSWORD}",
    f"s3://data/a.txt?X-Amz-Signature={PASSWORD}",
    f"s3://{LOGIN}:{PASSWORD}@data/a.txt",
    f"s3://{LOGIN}@data/a.txt",
    f"gopher://{LOGIN}:{PASSWORD}@host/a.txt",
    f"hdfs://me:{PASSWORD}@host:8020/a.txt",
)


@pytest.mark.parametrize("url", LOGINS)
def test_secrets_in_urls_of_all_kinds(url: str, said: Said, tmp_path: Path) -> None:
    (tmp_path / "list").mkdir()
    path = tmp_path.parent / f"{tmp_path.name}.manifest"
    path.write_text(url)
    said.error(lambda: ps.read(url))
    said.error(lambda: ps.read([f"{tmp_path}/none", url]))
    said.error(lambda: ps.read(str(path)))
    said.error(lambda: ps.read(url, storage=MemoryFileSystem()))
    for command in ("inspect", "explain", "simulate", "index", "bench"):
        said.command(command, url)


@pytest.mark.slow
def test_success_shows_no_secret(said: Said, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with scripted(lambda asked: asked.part(DATA)) as server:
        for store in ("s3", "s3 with a login", "http"):
            url, environment = stores(server.port)[store]
            for name, value in environment.items():
                monkeypatch.setenv(name, value)
            said.dataset(ps.read(url))
            for command in (
                ["inspect", url],
                ["inspect", url, "--html", str(tmp_path / "page.html")],
                ["explain", url],
                ["simulate", url],
                ["index", url],
                ["bench", url, "--seconds", "0.2"],
                ["cache"],
            ):
                said.command(*command)
        assert "authorization" in server.seen or "Signature" in server.seen, "they were there to be shown"


class Options(MemoryFileSystem):
    """A file system with credentials among its options, whose errors show them."""

    cachable = False

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.fails = False

    def find(self, *args: Any, **kwargs: Any) -> Any:
        if self.fails:
            raise OSError(f"cannot list with {self.storage_options}")
        return super().find(*args, **kwargs)

    def cat_file(self, *args: Any, **kwargs: Any) -> Any:
        if self.fails:
            raise RuntimeError(f"cannot read with {self.storage_options}")
        return super().cat_file(*args, **kwargs)


@pytest.mark.slow
def test_options_of_a_file_system(said: Said) -> None:
    nested = {"headers": {"Authorization": f"Bearer {OPTION}"}, "password": f"{OPTION}-2"}
    storage = Options(key=f"{OPTION}-key", secret=f"{OPTION}-secret", token=OPTION, client_kwargs=nested)
    storage.pipe("/secrets/a.txt", DATA)
    dataset = ps.read("/secrets", storage=storage)
    said.dataset(dataset)
    storage.fails = True
    assert "cannot list" in said.error(lambda: ps.read("/secrets", storage=storage))
    dataset.cache_local(0)
    assert "cannot read" in said.error(lambda: list(ps.Loader(dataset.batch(10))))


def test_options_of_an_obstore_store(said: Said) -> None:
    with scripted(lambda asked: answered(asked, 400)) as server:
        keys: dict[str, Any] = {
            "access_key_id": f"{OPTION}-key",
            "secret_access_key": OPTION,
            "session_token": f"{OPTION}-2",
        }
        options: dict[str, Any] = {"allow_http": True, "default_headers": {"x-secret": OPTION}}
        store = S3Store("data", endpoint=server.url, region="us-east-1", client_options=options, **keys)
        said.error(lambda: ps.read("a.txt", storage=store))
        assert OPTION in server.seen


def test_what_is_hidden_and_what_is_not() -> None:
    for text, wanted in (
        ("http://a:b@c@host/x?sig=y z", "http://host/x z"),
        ("Authorization: AWS4-HMAC Credential=x", "Authorization: …"),
        ("GET /x?a=1&X-Amz-Signature=abc&b=2", "GET /x?a=1&X-Amz-Signature=…&b=2"),
        ("{'x-amz-security-token': 'abc'}", "{'x-amz-security-token': '…'}"),
        ("s3://data/me@here/x: no such object", "s3://data/me@here/x: no such object"),
        (f"x {PLANTED['HF_TOKEN']} y", "x … y"),
    ):
        assert without_secrets(text) == wanted
    os.environ["SHORT_TOKEN"] = "short"
    try:
        assert without_secrets("a short text") == "a short text"
    finally:
        del os.environ["SHORT_TOKEN"]
