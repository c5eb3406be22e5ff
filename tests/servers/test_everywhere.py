"""One dataset of each native format is the same from the local disk, from S3 and by HTTP; test_hdfs.py reads them from HDFS."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.format import FORMATS
from servers.http import http_server
from servers.s3 import CREDENTIALS, s3_server
from support.everything import WRITERS, files_of, same, write_everything

#: A manifest of names is tested in tests/format; the folders of media are one format with three names.
ELSEWHERE = {"manifest", "audio_folder", "video_folder"}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """All datasets below one folder, and how each is read."""
    root = tmp_path_factory.mktemp("everything")
    return root, write_everything(root)


@pytest.fixture(scope="module")
def s3(written: Any) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in CREDENTIALS.items():
            patch.setenv(name, value)
        with s3_server() as server:
            server.put(files_of(written[0]))
            patch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.port}")
            yield "s3://data"


@pytest.fixture(scope="module")
def http(written: Any) -> Iterator[str]:
    with http_server(written[0]) as url:
        yield url


def test_every_format_is_here() -> None:
    assert {format.name for format in FORMATS} - ELSEWHERE <= {name.partition(" ")[0] for name in WRITERS}


@pytest.mark.parametrize("name", WRITERS)
def test_from_s3(name: str, written: Any, s3: str) -> None:
    root, options = written
    same(ps.read(root / name, **options[name]), ps.read(f"{s3}/{name}", **options[name]))


@pytest.mark.parametrize("name", [name for name in WRITERS if not name.startswith("zarr")])
def test_from_http(name: str, written: Any, http: str) -> None:
    """HTTP lists nothing, so that files are named; a Zarr store is a folder, and cannot be."""
    root, options = written
    names = [str(path.relative_to(root)) for path in sorted((root / name).rglob("*")) if path.is_file()]
    near = ps.read([root / name for name in names], **options[name])
    same(near, ps.read([f"{http}/{name}" for name in names], **options[name]))
