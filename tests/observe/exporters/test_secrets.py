"""Nothing that a URL carries besides its place leaves the process."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.observe.exporters.opening import open_exporter
from penstock.observe.figure_groups import CacheFigures, ErrorFigures, ExporterFigures, FunctionFigures, StorageFigures
from penstock.observe.secrets import plain, without_url_secrets
from penstock.observe.snapshot import Advice, Identity
from support.snapshots import a_snapshot, some_events

URL = "https://me:hunter22@host:8080/a/b.tar?sig=abc123&x=1#frag77"
SECRETS = (b"hunter22", b"abc123", b"frag77", b"me:")


def test_no_exporter_tells_them(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    snapshot = a_snapshot(
        loader=Identity(name=URL, host="host"),
        verdict=f"read {URL}",
        errors=ErrorFigures(samples=1, met=1, sources={URL: 1}),
        cache=(CacheFigures(where=URL, rows=1, size_bytes=1, hits=1, made=1),),
        functions=(FunctionFigures(function=URL, workers="thread", why=URL),),
        storage=StorageFigures(requests=1),
        advice=(Advice(rule="r", evidence=URL, remedy=URL, change=URL),),
        exporters={URL: ExporterFigures(written=1, error=URL)},
    )
    targets = ["jsonl:{}/a.jsonl", "trace:{}/a.json", "tensorboard:{}/tb", "xprof:{}/logs", "emf:{}/a.log", "emf:-", "prometheus:{}/a.prom"]  # fmt: skip
    for target in targets:
        exporter = open_exporter(target.format(tmp_path))
        exporter.write(snapshot, some_events())
        exporter.close()
    written = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()] + [capsysbinary.readouterr().out]
    assert len(written) == len(targets)
    assert all(written)
    for secret in SECRETS:
        assert not any(secret in content for content in written)
    assert sum(b"https://host:8080/a/b.tar" in content for content in written) == 1  # jsonl alone tells texts


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("s3://bucket/a-*.tar", "s3://bucket/a-*.tar"),
        ("no URL: a@b?c#d", "no URL: a@b?c#d"),
        ("s3://key:se/cr@et@bucket/x", "s3://bucket/x"),
        ("hdfs://someone@name:9000/a", "hdfs://name:9000/a"),
        ("http://[::1]:80/a?b", "http://[::1]:80/a"),
        ("two: 'ftp://u:p@h/a', \"http://h?q\"", "two: 'ftp://h/a', \"http://h\""),
        ("postgresql://user:pass@host/db?password=x", "postgresql://host/db"),
        ("http://", "http://"),
        ("://@?", "://@?"),
    ],
)
def test_what_is_left_of_urls(text: str, shown: str) -> None:
    assert without_url_secrets(text) == shown


@given(
    st.text(alphabet=st.characters(codec="ascii", categories=("L", "N")), min_size=8),
    st.sampled_from(["s3", "https", "hdfs", "az"]),
)
def test_passwords_of_any_letters(password: str, scheme: str) -> None:
    word = f"x{password}y"
    for url in (
        f"{scheme}://u:{word}@host/path",
        f"{scheme}://{word}@host/path",
        f"{scheme}://host/path?k={word}",
        f"{scheme}://host/p#{word}",
    ):
        assert word not in without_url_secrets(f"see {url}, please")


def test_values_as_json_has_them() -> None:
    assert plain({1: (float("nan"), {"a"}, b"x", None, True, 2)}) == {"1": [None, ["a"], "b'x'", None, True, 2]}
    assert re.fullmatch("<object object at .*>", str(plain(object())))
