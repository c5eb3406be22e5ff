"""Classes of media files: which folder names the class of each file, and the classes' numbers.

| what is read                                        | the class of a file                    |
| --------------------------------------------------- | -------------------------------------- |
| photos, photos/*/*.jpg                              | the first folder below photos          |
| [train/cats, train/dogs], [cats/1.jpg, dogs/2.jpg]  | the folder that holds the file         |
| [root_a, root_b], each with class folders           | the first folder below root_a, root_b  |
| files of one folder                                 | none, unless `classes` is given        |

Folders of one name are one class. Classes are numbered in sorted order, or as `classes` says.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from penstock.core import kernels
from penstock.core.columns.spec import Ids
from penstock.core.errors import PlanError, SourceError
from penstock.core.files.shards import Shards
from penstock.core.messages import quoted
from penstock.core.warnings import warn

#: Folders that are looked into for class folders of which no file is here.
_MOST_PARENTS = 64
_SHOWN = 5
_WITHOUT_LABEL = "or leave the label out with columns=[…]"


@dataclass(frozen=True, kw_only=True)
class FileClasses:
    """names: of the classes, by number. labels: int64, one a file; None where there are no classes. given: by the user."""

    names: tuple[str, ...] = ()
    labels: Ids | None = None
    given: bool = False


@dataclass(frozen=True, kw_only=True)
class _Folders:
    """The class folders. paths: without a slash at the end. of_file: int64, which of them each file lies in.

    loose: for each, whether it was named itself, or files in it; not, if it was found below what was named.
    """

    paths: tuple[str, ...]
    loose: tuple[bool, ...]
    of_file: Ids

    @property
    def names(self) -> list[str]:
        return [path.rpartition("/")[2] for path in self.paths]


def classes_of(shards: Shards, given: Any = None, *, warn: bool = True) -> FileClasses:
    """The classes of files, united by name.

    given: all names, in the order of their numbers. warn: of class folders that lie beside these and have no file here.
    Raises PlanError for a folder that is not among those given, SourceError where it cannot be told which folders are classes.
    """
    folders = _several(shards) if shards.several_roots else _below_root(shards)
    if given is not None:
        return _numbered(folders, _checked(given, folders), given=True)
    names = set(folders.names)
    if all(folders.loose) and len(names) < 2:
        return FileClasses()
    _check_meaning(folders)
    if warn and shards.is_local:
        _warn_of_others(folders, names)
    return _numbered(folders, tuple(sorted(names)), given=False)


def _numbered(folders: _Folders, names: tuple[str, ...], *, given: bool) -> FileClasses:
    number_of = {name: number for number, name in enumerate(names)}
    numbers = np.array([number_of[name] for name in folders.names], dtype=np.int64)
    return FileClasses(names=names, labels=numbers[folders.of_file], given=given)


def _checked(given: Any, folders: _Folders) -> tuple[str, ...]:
    """The classes that the user named; PlanError if they have no order, come twice, or lack one of the folders."""
    names = checked_names(given, "class folders")
    known = set(names)
    for path, name in zip(folders.paths, folders.names, strict=True):
        if name not in known:
            raise PlanError(
                f"classes: {path} is the class folder {name!r}, which is not among the {len(names)} named "
                f"({shown_names(names)}); name it as well, or leave its files out"
            )
    return names


def checked_names(given: Any, what: str) -> tuple[str, ...]:
    """Names of classes that the user gave; PlanError if they have no order, or come twice."""
    ordered = isinstance(given, Iterable) and not isinstance(given, (str, bytes, Mapping, set, frozenset))
    names = tuple(given) if ordered else ()
    if not ordered or not all(isinstance(name, str) for name in names) or len(set(names)) != len(names):
        raise PlanError(
            f"classes={quoted(given)}: pass a list of the names of all {what}, each once, in the order of their numbers"
        )
    return tuple(str(name) for name in names)


def shown_names(names: Sequence[str]) -> str:
    """Some names for a message: shown_names(["a", "b"]) == "a, b"."""
    more = f", … {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


# Which folder


def _below_root(shards: Shards) -> _Folders:
    """The first folder below the one place that was listed; the place itself if all files lie directly in it."""
    of_file, first = kernels.first_folders(*shards.path_buffers, len(shards.root.encode()))
    direct = of_file < 0
    if direct.all():
        place = _place(shards.path(0), len(shards.root))
        return _Folders(paths=(place,), loose=(True,), of_file=np.zeros(len(shards), dtype=np.int64))
    if direct.any():
        raise SourceError(
            f"{shards.path(int(np.argmax(direct)))}: lies beside the class folders of {shards.root}; move it into one, out of the "
            f"way, {_WITHOUT_LABEL}"
        )
    below = (shards.path(number)[len(shards.root) :] for number in first.tolist())
    paths = tuple(f"{shards.root}{name.partition('/')[0]}" for name in below)
    return _Folders(paths=paths, loose=(False,) * len(paths), of_file=of_file)


def _several(shards: Shards) -> _Folders:
    """The same for each of several places."""
    assert shards.root_lengths is not None
    known: dict[tuple[str, bool], int] = {}
    of_file = np.empty(len(shards), dtype=np.int64)
    for number, (path, length) in enumerate(zip(shards.paths.to_pylist(), shards.root_lengths.tolist(), strict=True)):
        place = _place(path, length)
        first, slash, _ = path[len(place) :].removeprefix("/").partition("/")
        folder = (f"{place}/{first}", False) if slash else (place, True)
        of_file[number] = known.setdefault(folder, len(known))
    return _Folders(paths=tuple(path for path, _ in known), loose=tuple(loose for _, loose in known), of_file=of_file)


def _place(path: str, root_length: int) -> str:
    """The folder that was listed, without a slash at its end; storages of users may give a root that is part of a name."""
    root, rest = path[:root_length], path[root_length:]
    return root.rstrip("/") if root.endswith("/") or rest.startswith("/") else root.rpartition("/")[0]


# What may be wrong


def _check_meaning(folders: _Folders) -> None:
    """SourceError where the folders can be read in two ways."""
    loose = [path for path, is_loose in zip(folders.paths, folders.loose, strict=True) if is_loose]
    found = [path for path, is_loose in zip(folders.paths, folders.loose, strict=True) if not is_loose]
    if loose and found:
        raise SourceError(
            f"{loose[0]}: holds files itself, while others that were named hold class folders ({found[0]}); name class folders, or "
            f"folders that hold them, say which are classes with classes=[…], {_WITHOUT_LABEL}"
        )
    ordered = sorted(f"{path}/" for path in folders.paths)
    for outer, inner in pairwise(ordered):
        if inner.startswith(outer):
            raise SourceError(
                f"{inner.rstrip('/')}: lies in {outer.rstrip('/')}, and both would be classes; say which are with classes=[…], "
                f"{_WITHOUT_LABEL}"
            )


def _warn_of_others(folders: _Folders, names: set[str]) -> None:
    """Warns of folders beside the class folders that have no file here: another list that has some is numbered otherwise."""
    others = sorted(_beside(folders.paths) - names)
    if others:
        warn(
            f"{folders.paths[0]}: these sibling folders have no file in the list: {shown_names(others)}; the {len(names)} "
            "classes that have files are numbered, so that labels differ from those of a list that has more. Pass the classes that "
            "you mean, in their order: penstock.read(…, classes=train.classes)"
        )


def _beside(paths: Iterable[str]) -> set[str]:
    """Names of all folders that lie where the class folders lie; hidden ones are left out."""
    found: set[str] = set()
    for parent in sorted({os.path.dirname(path) for path in paths})[:_MOST_PARENTS]:
        try:
            with os.scandir(parent) as entries:
                found.update(entry.name for entry in entries if entry.name[0] != "." and entry.is_dir())
        except OSError:
            continue
    return found
