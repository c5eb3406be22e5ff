"""One dataset of each native format is the same from the local disk, from S3, by HTTP and from HDFS."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.format import FORMATS
from servers.http import http_server
from servers.s3 import CREDENTIALS, s3_server
from support.everything import WRITERS
from support.promises import assert_same

#: A manifest of names is tested in tests/format; the folders of media are one format with three names.
ELSEWHERE = {"manifest", "audio_folder", "video_folder"}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """All datasets below one folder, and how each is read."""
    root = tmp_path_factory.mktemp("everything")
    options = {}
    for name, write in WRITERS.items():
        (root / name).mkdir()
        options[name] = write(root / name)
    return root, options


def files_of(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


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


@pytest.fixture(scope="module")
def on_hdfs(written: Any, hdfs: Any) -> str:
    hdfs.put(files_of(written[0]))
    return str(hdfs.url)


def same(near: ps.Dataset, far: ps.Dataset) -> None:
    """Same digest, same columns, same shuffled epoch."""
    assert far.source.manifest.digest == near.source.manifest.digest
    assert far.spec == near.spec
    assert len(far) == len(near) >= 5
    plans = [dataset.shuffle(seed=3).batch(5) for dataset in (near, far)]
    with ps.Loader(plans[0]) as first, ps.Loader(plans[1]) as second:
        for step, (a, b) in enumerate(zip(first, second, strict=True)):
            drop = [name for name in ("path",) if name in a]  # it names the place
            assert_same({k: b[k] for k in b if k not in drop}, {k: a[k] for k in a if k not in drop}, f"step {step}")


def test_every_format_is_here() -> None:
    assert {format.name for format in FORMATS} - ELSEWHERE <= {name.partition(" ")[0] for name in WRITERS}


@pytest.mark.parametrize("name", WRITERS)
def test_from_s3(name: str, written: Any, s3: str) -> None:
    root, options = written
    same(ps.read(root / name, **options[name]), ps.read(f"{s3}/{name}", **options[name]))


@pytest.mark.timeout(300)  # the first one waits for the cluster
@pytest.mark.parametrize("name", WRITERS)
def test_from_hdfs(name: str, written: Any, on_hdfs: str) -> None:
    root, options = written
    same(ps.read(root / name, **options[name]), ps.read(f"{on_hdfs}/{name}", **options[name]))


@pytest.mark.parametrize("name", [name for name in WRITERS if not name.startswith("zarr")])
def test_from_http(name: str, written: Any, http: str) -> None:
    """HTTP lists nothing, so that files are named; a Zarr store is a folder, and cannot be."""
    root, options = written
    names = [str(path.relative_to(root)) for path in sorted((root / name).rglob("*")) if path.is_file()]
    near = ps.read([root / name for name in names], **options[name])
    same(near, ps.read([f"{http}/{name}" for name in names], **options[name]))
