"""Folders and lists that are large, that lead in circles, that hold what is no file, or names that a terminal would obey."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import penstock as ps
from penstock.core.errors import PenstockError, SourceError
from penstock.core.warnings import warn
from support.cli_runner import invoke
from support.tries import tries

#: What a terminal obeys, or what turns the text around.
ODD = "\x1b[31mX\x07\r\n\x7f\x9b\u202e\u2028"
RAW = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def write_images(folder: Path, names: list[str], *, link: Path | None = None) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        if link is None:
            Image.new("RGB", (8, 8)).save(folder / name, "JPEG")
        else:
            os.link(link, folder / name)


def test_many_files_and_classes_open_within_seconds(tmp_path: Path) -> None:
    classes, files = tries(20_000, at_least=500), 5
    write_images(tmp_path, ["one.jpg"])
    paths = [
        str(tmp_path / "data" / f"class{number:05}" / f"{file}.jpg")
        for number in range(classes)
        for file in range(files)
    ]
    for number in range(classes):
        write_images(
            tmp_path / "data" / f"class{number:05}", [f"{file}.jpg" for file in range(files)], link=tmp_path / "one.jpg"
        )
    (tmp_path / "list.manifest").write_text("\n".join(paths))
    for where in (tmp_path / "data", f"{tmp_path}/data/*/*.jpg", paths, tmp_path / "list.manifest"):
        begin = time.process_time()
        assert len(ps.read(where)) == len(paths)
        assert time.process_time() - begin < 1 + 100e-6 * len(paths)


def test_links_in_circles_end(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_images(tmp_path / name, [f"{name}.jpg"])
    for number in range(30):
        (tmp_path / "a" / f"self{number}").symlink_to(tmp_path / "a")
        (tmp_path / "b" / f"up{number}").symlink_to(tmp_path)
    (tmp_path / "a" / "other").symlink_to(tmp_path / "b")
    (tmp_path / "b" / "other").symlink_to(tmp_path / "a")
    found = ps.read(tmp_path / "*" / "**" / "*.jpg").source.manifest.shards.paths.to_pylist()
    assert [path.removeprefix(f"{tmp_path}/") for path in found] == [
        "a/a.jpg",
        "a/other/b.jpg",
        "b/b.jpg",
        "b/other/a.jpg",
    ]


def test_a_fan_of_links_is_an_error_at_once(tmp_path: Path) -> None:
    folders = [tmp_path / f"{level}" for level in range(38)]
    for above, below in itertools.pairwise(folders):
        above.mkdir()
        for name in ("left", "right"):
            (above / name).symlink_to(below)
    write_images(folders[-1], ["a.jpg"])
    begin = time.process_time()
    with pytest.raises(SourceError, match="further names to the same files; remove some of these links"):
        ps.read(folders[0])
    assert time.process_time() - begin < 20


def test_what_is_no_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", np.arange(5))
    os.mkfifo("pipe.npy")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind("socket.npy")
        for name, kind in (("pipe.npy", "a named pipe"), ("socket.npy", "a socket"), ("/dev/zero", "a device")):
            Path("list.manifest").write_text(f"a.npy\n{name}\n")
            for where in (name, ["a.npy", name], "list.manifest"):
                with pytest.raises(SourceError, match=f"{name}: it is {kind}, no regular file"):
                    ps.read(where)
    assert len(ps.read("*.npy")) == 5
    os.mkfifo("bad.jsonl")
    with pytest.raises(PenstockError, match="it is a named pipe"):
        ps.read("a.npy", exclude="bad.jsonl")
    with pytest.raises(PenstockError, match="it is a named pipe"):
        invoke_verify("bad.jsonl")


def invoke_verify(path: str) -> None:
    from penstock.observe.ledger.verify import verify

    verify([path])


def test_a_folder_that_was_removed(tmp_path: Path) -> None:
    """In a process of its own, which stands in that folder."""
    code = (
        "import os, sys, penstock as ps\nos.chdir(sys.argv[1]); os.rmdir(sys.argv[1])\n"
        "for where in ('a.npy', '.', '*', ['a', 'b']):\n"
        "    try: ps.read(where)\n"
        "    except ps.SourceError as error: print(error)\n"
    )
    (tmp_path / "gone").mkdir()
    run = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "gone")], capture_output=True, text=True, check=True
    )
    assert run.stdout.count("the working folder, from which this path leads, was removed") == 4


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    for name in ("a", "b"):
        write_images(tmp_path / f"{name}{ODD}", [f"{number}{ODD}.jpg" for number in range(3)])
        (tmp_path / f"{name}{ODD}" / f"9{ODD}.jpg").write_bytes(b"damaged")
        (tmp_path / f"{name}{ODD}" / f"x{ODD}.jpg").symlink_to(f"/nowhere{ODD}")
    return tmp_path


COMMANDS = ("inspect", "inspect --decode", "inspect --json", "explain", "index", "index --checksums", "simulate")


@pytest.mark.filterwarnings("ignore")
def test_names_never_reach_a_terminal_raw(odd: Path) -> None:
    for found in texts(odd):
        assert not RAW.search(found), found
        assert "\nX" not in found


def texts(folder: Path) -> Iterator[str]:
    """What is said of a folder of odd names, wherever something is said."""
    for command in COMMANDS:
        name, *options = command.split()
        result = invoke(name, str(folder), *options)
        yield result.stdout + result.stderr
    dataset = ps.read(folder).batch(2)
    yield from (repr(dataset), dataset.explain())
    with pytest.raises(PenstockError) as raised:
        list(ps.Loader(dataset))
    yield str(raised.value)
    with pytest.warns(UserWarning, match="a") as warned:
        warn(f"{folder}/a{ODD}: odd")
    yield from (str(one.message) for one in warned)
    loader = ps.Loader(dataset, on_error="skip")
    with contextlib.suppress(PenstockError):
        list(loader)
    yield from (loader.report(), repr(loader))
    for where in (f"/nowhere/{ODD}", f"{ODD}/*", f"s3://{ODD}", f"{ODD}://"):
        with pytest.raises(PenstockError) as raised:
            ps.read(where)
        yield str(raised.value)
