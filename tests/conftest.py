"""What many tests need: small pictures and records on disk; which tests run together, and how many random examples they try."""

from __future__ import annotations

import gc
import io
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from PIL import Image

from penstock.observe.reporter import reporter
from support.tries import CASES, TRIES, few, tries

SERVERS = Path(__file__).parent / "servers"
#: Folders of many tests that share nothing and would keep one process long after the others are done; and what they have that is dear to make.
SPREAD = ("tests/damage/", "tests/promises/")
SHARES_MUCH = (
    "tests/damage/test_bombs.py",
    "tests/damage/test_changing_files.py",
    "tests/damage/test_image_memory.py",
)
#: What has tests of half a minute and more begins first, else one process would be at them long after the others are done.
FIRST = ("tests/on_ray/", "tests/cluster/", "tests/test_types.py", "tests/test_docs.py", "tests/cli/test_wheel.py", "tests/dataloader/", "tests/deliver/", "tests/examples/")  # fmt: skip
SERVER_FIXTURES = {"hdfs", "postgres"}


# The same examples each time, but in `make test-long`: what lands is not judged by luck.
settings.register_profile("penstock", max_examples=tries(1_000), deadline=None, derandomize=TRIES < 1_000)
settings.load_profile("penstock")


def talks_to_a_server(item: pytest.Item) -> bool:
    """By its folder, by the fixture that it takes, or because its file takes something from servers/s3.py."""
    is_named = not SERVER_FIXTURES.isdisjoint(getattr(item, "fixturenames", ()))
    names = vars(item.module).values() if isinstance(item, pytest.Function) else ()
    return (
        is_named or SERVERS in item.path.parents or any(getattr(it, "__module__", "") == "servers.s3" for it in names)
    )


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    """What talks to a server is marked, so that `make quick` leaves it out; of what `-m` leaves, that takes a few cases of each test."""
    for item in items:
        if talks_to_a_server(item):
            item.add_marker("servers")
    yield
    items.sort(key=lambda item: not item.nodeid.startswith(FIRST))
    if CASES is not None:
        taken = few((item.nodeid for item in items), CASES)
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in taken])
        items[:] = [item for item in items if item.nodeid in taken]


def pytest_collection_finish() -> None:
    """Many tests search for garbage: not among all that was imported so far, which takes half a second each time."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """A file's tests share a process, and what they make once; those of SPREAD run one by one wherever a process is free."""
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            is_apart = nodeid.startswith(SPREAD) and not nodeid.startswith(SHARES_MUCH)
            return nodeid if is_apart else super()._split_scope(nodeid)

    return Scheduling(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.fixture(autouse=True, scope="session")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Indexes of tests do not go to the user's cache."""
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(autouse=True)
def untold() -> None:
    """Loaders that earlier tests left are told of no more: what writes their figures has a file open now and then, where tests count these."""
    reporter().end_all()


@pytest.fixture(autouse=True, scope="session")
def interrupts() -> None:
    """Ctrl-C reaches the tests' child processes, even where the tests run in the background and ignore it themselves."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def jpeg(seed: int, width: int = 100, height: int = 80) -> bytes:
    """A smooth random picture."""
    rng = np.random.default_rng(seed)
    small = rng.integers(0, 256, (5, 6, 3), dtype=np.uint8)
    out = io.BytesIO()
    Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC).save(out, "JPEG", quality=90)
    return out.getvalue()


@pytest.fixture(scope="session")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """40 JPEGs in the class folders cats and dogs."""
    root = tmp_path_factory.mktemp("data") / "photos"
    for number in range(40):
        path = root / ("cats" if number % 2 else "dogs") / f"{number:03d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(jpeg(number, 90 + number, 70 + 2 * number))
    return root


@pytest.fixture(scope="session")
def hdfs() -> Iterator[Any]:
    """A cluster of HDFS. Its tests are one file, so that a run starts one; it takes some seconds and half a gigabyte."""
    from servers.hdfs import hdfs_cluster, why_not

    if reason := why_not():
        pytest.skip(reason)
    with hdfs_cluster() as cluster:
        cluster.wait()
        yield cluster
