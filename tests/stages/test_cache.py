"""`cache()`: what is kept, by which key, and what happens to it when files are cut, full, shared, or their writer is killed."""

from __future__ import annotations

import gc
import json
import os
import pickle
import signal
import subprocess
import sys
import time
import warnings
from collections import Counter, deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from penstock.derived.row_file import SUFFIX
from penstock.plan.nodes import Cache
from penstock.plan.tree import flow
from support.cached_child import dataset, digest, digest_of
from support.matrix import crossed
from support.promises import assert_same, keep
from support.seams import lowered_of

TESTS = Path(__file__).parent.parent


class Counting:
    """A function of rows that counts how many it made."""

    def __init__(self, factor: int = 2) -> None:
        self.factor, self.rows = factor, deque[int]()  # a deque is no part of what the function is

    @property
    def made(self) -> Counter[int]:
        return Counter(self.rows)

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        self.rows.extend(batch["i"].tolist())
        return {**batch, "y": batch["i"] * self.factor}

    def __reduce__(self) -> Any:
        return Counting, (self.factor,)


def columns(rows: int = 100) -> dict[str, Any]:
    return {
        "i": np.arange(rows),
        "image": np.arange(rows * 12, dtype=np.uint8).reshape(rows, 2, 2, 3),
        "text": [f"text {row}" * (row % 4) for row in range(rows)],
        "raw": pa.array([bytes([row % 256]) * (row % 5) for row in range(rows)], pa.large_binary()),
        "tokens": pa.array([list(range(row % 7)) for row in range(rows)], pa.large_list(pa.int32())),
    }


def epochs(data: ps.Dataset, number: int = 2, **options: Any) -> list[dict[str, Any]]:
    with ps.Loader(data, **{"rank": 0, "world_size": 1, "epochs": number, **options}) as loader:
        return [keep(batch) for _ in range(number) for batch in loader]


def same(found: list[dict[str, Any]], wanted: list[dict[str, Any]]) -> None:
    for one, other in zip(found, wanted, strict=True):
        assert_same(one, other)


def made_of(function: Counting) -> int:
    """Rows that were made; the first call of a function may be made twice, to see whether it draws."""
    return len(function.made)


PLACES = pytest.mark.parametrize("place", ["memory", "folder"])


def cached(data: ps.Dataset, place: str, folder: Path, **options: Any) -> ps.Dataset:
    return data.cache(**options) if place == "memory" else data.cache(folder / "kept", **options)


# What comes out


def every_type(batch: dict[str, Any]) -> dict[str, Any]:
    rows = batch["i"].tolist()
    return {
        "i": batch["i"],
        "half": batch["i"].astype(np.float16),
        "yes": batch["i"] % 2 == 0,
        "complex": batch["i"] * 1j,
        "empty": np.empty((len(rows), 0), np.float32),
        "text": pa.array([f"{row}" for row in rows], pa.string()),
        "nulls": pa.array([None if row % 3 else f"{row}" for row in rows], pa.large_string()),
        "words": pa.array([[f"{row}"] * (row % 3) for row in rows], pa.list_(pa.string())),
        "short": pa.array([[row] * (row % 3) for row in rows], pa.list_(pa.int16())),
        "boxes": pa.array([[[row, 1.5]] * (row % 3) for row in rows], pa.large_list(pa.list_(pa.float32(), 2))),
        "holes": pa.array([[None] * (row % 2) for row in rows], pa.large_list(pa.int8())),
    }


@PLACES
def test_every_type_comes_back_as_it_was(place: str, tmp_path: Path) -> None:
    data = ps.from_arrays(columns())
    for made in (data, data.map(every_type)):
        wanted = epochs(made.shuffle(seed=2).batch(10), 3)
        same(epochs(cached(made, place, tmp_path).shuffle(seed=2).batch(10), 3), wanted)


@PLACES
def test_functions_make_each_row_once(place: str, tmp_path: Path) -> None:
    function = Counting()
    data = cached(ps.from_arrays(columns()).map(function), place, tmp_path).shuffle(seed=0).batch(10)
    found = epochs(data, 4)
    assert made_of(function) == 100
    # Items that were begun before their rows were kept are made again: those of the next epoch.
    assert sum(function.made.values()) < 200
    same(found, epochs(ps.from_arrays(columns()).map(Counting()).shuffle(seed=0).batch(10), 4))


@PLACES
def test_some_rows_there_and_some_not(place: str, tmp_path: Path) -> None:
    function = Counting()
    kept = cached(ps.from_arrays(columns()).map(function), place, tmp_path)
    epochs(kept.take(37).batch(5), 1)
    function.rows.clear()
    wanted = epochs(ps.from_arrays(columns()).map(Counting()).shuffle(seed=5).batch(10))
    same(epochs(kept.shuffle(seed=5).batch(10)), wanted)
    assert not set(range(37)) & {*function.made}


def test_ops_behind_a_cache_draw_as_without(photos: Path) -> None:
    image = ps.image
    head, tail = [image.Decode(), image.Resize((40, 40))], [image.RandomResizedCrop(24), image.RandomHorizontalFlip()]
    wanted = epochs(ps.read(photos).transform(image=head).transform(image=tail).shuffle(seed=1).batch(8))
    data = ps.read(photos).transform(image=head).cache()
    same(epochs(ps.read(photos).shuffle(seed=1).transform(image=head).cache().transform(image=tail).batch(8)), wanted)
    same(epochs(data.transform(image=tail).shuffle(seed=1).batch(8)), wanted)
    bytes_kept = ps.read(photos).cache().transform(image=[*head, *tail])
    same(epochs(bytes_kept.shuffle(seed=1).batch(8)), wanted)


def test_ranks_share_a_folder_and_states_go_on(tmp_path: Path) -> None:
    function = Counting()
    data = ps.from_arrays(columns(96)).map(function).cache(tmp_path).shuffle(seed=4).batch(12)
    plain = ps.from_arrays(columns(96)).map(Counting()).shuffle(seed=4).batch(12)
    loaders = [ps.Loader(data, rank=rank, world_size=3) for rank in range(3)]
    taken = [[keep(batch) for batch in loader] for loader in loaders]
    state = loaders[0].state_dict()
    for loader in loaders:
        loader.close()
    wanted = [[keep(batch) for batch in ps.Loader(plain, rank=rank, world_size=3)] for rank in range(3)]
    for found, one in zip(taken, wanted, strict=True):
        same(found, one)
    with ps.Loader(plain, rank=0, world_size=1) as loader:
        loader.load_state_dict(state)  # of a plan with a cache, which changes no batch
        later = [keep(batch) for batch in loader]
    same(epochs(data, 2)[8:], later)


@pytest.mark.filterwarnings("ignore:penstock. 1 bad sample")
@pytest.mark.parametrize("policy", ["substitute", "skip"])
def test_bad_rows_are_not_kept(policy: Any, tmp_path: Path) -> None:
    def picky(row: dict[str, Any]) -> dict[str, Any]:
        if row["i"] == 13:
            raise ps.DataError("bad")
        return {"i": row["i"], "y": row["i"] * 2}

    def batches(data: ps.Dataset) -> list[dict[str, Any]]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return epochs(data.shuffle(seed=3).batch(10), 3, on_error=policy)

    data = ps.from_arrays({"i": np.arange(60)}).map_rows(picky)
    wanted = batches(data)
    kept = data.cache(tmp_path)
    for _ in range(2):
        same(batches(kept), wanted)
    same(batches(data.cache()), wanted)


def test_frozen_draws_are_those_of_epoch_0(photos: Path) -> None:
    data = ps.read(photos).transform(image=[ps.image.Decode(), ps.image.RandomResizedCrop(16)])
    first = epochs(data.batch(8), 1)
    same(epochs(data.cache(freeze_random=True).batch(8), 3), first * 3)

    def noisy(row: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
        return {"y": row["i"] + rng.random()}

    rows = ps.from_arrays(columns()).map_rows(noisy)
    same(epochs(rows.cache(freeze_random=True).batch(10), 2), epochs(rows.batch(10), 1) * 2)


# What is refused


def draws_globally(batch: dict[str, Any]) -> dict[str, Any]:
    return {"x": np.random.rand(len(batch["i"]))}


def draws(batch: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    return {"x": batch["i"] + rng.random()}


def hidden(batch: dict[str, Any]) -> dict[str, Any]:
    """Draws where its code does not show it."""
    module = __import__("random")
    return {"x": batch["i"] + getattr(module, "ran" + "dom")()}


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda data: data.map(draws).cache(), "put cache"),
        (lambda data: data.map(draws_globally).cache(freeze_random=True), "map_rows"),
        (lambda data: data.filter(lambda batch: batch["i"] > 3).cache(), "before filter"),
        (lambda data: data.pack("tokens", length=8).cache(), "before pack"),
        (lambda data: data.batch(4).cache(), "before batch"),
        (lambda data: data.cache(to="tape"), "to="),
        (lambda data: data.cache("x", to="disk"), "to="),
        (lambda data: data.cache(""), "empty path"),
        (lambda data: data.cache(7), "no path"),
        (lambda data: data.cache("x", 10), "position"),
        (lambda data: data.cache(size="huge"), "not a size"),
        (lambda data: data.cache(size=0), "keeps nothing"),
        (lambda data: data.cache(freeze_random="yes"), "freeze_random"),
    ],
)
def test_what_cannot_be_kept_says_what_to_do(make: Callable[[ps.Dataset], ps.Dataset], words: str) -> None:
    with pytest.raises(ps.PlanError, match=words):
        make(ps.from_arrays(columns()))


def test_random_ops_and_streams_are_refused(photos: Path) -> None:
    data = ps.read(photos).transform(image=[ps.image.Decode(), ps.image.RandomResizedCrop(16)])
    with pytest.raises(ps.PlanError, match="RandomResizedCrop draws anew"):
        data.cache()
    stream = ps.from_iterable(lambda: iter([{"x": 1}]), samples=1, spool=False)
    with pytest.raises(ps.PlanError, match="spool=True"):
        stream.cache()


@pytest.mark.filterwarnings("ignore:penstock. map")
def test_a_function_that_turns_out_to_draw_is_refused_before_a_row_is_kept() -> None:
    with pytest.raises(ps.PlanError, match="draws random numbers"):
        epochs(ps.from_arrays(columns()).map(hidden).cache().batch(10))


def test_rows_that_depend_on_their_batch_are_an_error() -> None:
    def widest(batch: dict[str, Any]) -> dict[str, Any]:
        return {"x": np.zeros((len(batch["i"]), int(batch["i"].max())))}

    with pytest.raises(ps.PlanError, match="pad behind cache"):
        epochs(ps.from_arrays(columns()).map(widest).cache().batch(10))


# Keys


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.glob(f"*{SUFFIX}")}


def key_of(data: ps.Dataset, folder: Path) -> str:
    before = files(folder)
    epochs(data.batch(10), 1)
    (new,) = (files(folder) - before) or {""}
    return new


def test_what_is_upstream_names_the_rows(tmp_path: Path) -> None:
    def scaled(factor: int) -> Callable[[dict[str, Any]], dict[str, Any]]:
        return lambda batch: {"y": batch["i"] * factor}

    data = ps.from_arrays(columns())
    assert key_of(data.map(scaled(2)).cache(tmp_path), tmp_path)
    # Nothing that changes no row makes another key.
    for other in (
        data.map(scaled(2)).cache(tmp_path),
        data.shuffle(seed=3).map(scaled(2)).cache(tmp_path, size="1GB"),
        data.take(50).map(scaled(2)).cache(tmp_path),
        data.map(scaled(2)).cache(tmp_path).repeat(2),
        data.map(scaled(2), workers="thread").cache(tmp_path).shuffle(seed=1),
    ):
        assert not key_of(other, tmp_path)
    changed = columns()
    changed["image"] = changed["image"].copy()
    changed["image"][50, 1, 1, 1] += 1
    for other in (
        data.map(scaled(3)).cache(tmp_path),
        data.map(lambda batch: {"y": batch["i"] * 2 + 0}).cache(tmp_path),
        data.map_rows(lambda row: {"y": row["i"] * 2}).cache(tmp_path),
        data.cache(tmp_path),
        ps.concat([data, data]).map(scaled(2)).cache(tmp_path),
        ps.from_arrays({**columns(), "more": np.arange(100)}).map(scaled(2)).cache(tmp_path),
        ps.from_arrays(changed).map(scaled(2)).cache(tmp_path),
    ):
        assert key_of(other, tmp_path)


def test_a_file_that_was_written_again_is_another(tmp_path: Path) -> None:
    path, kept = tmp_path / "rows.jsonl", tmp_path / "kept"
    path.write_text('{"x": 1}\n{"x": 2}\n')
    epochs(ps.read(path).cache(kept).batch(2), 1)
    path.write_text('{"x": 3}\n{"x": 4}\n')
    assert epochs(ps.read(path).cache(kept).batch(2), 1)[0]["x"].tolist() == [3, 4]
    assert len(files(kept)) == 2


class Object:
    def __init__(self, factor: int) -> None:
        self.factor = factor

    def __len__(self) -> int:
        return 10

    def __getitem__(self, number: int) -> dict[str, int]:
        return {"x": number * self.factor}


def test_objects_are_known_by_what_they_hold(tmp_path: Path) -> None:
    for factor in (2, 3):
        (batch,) = epochs(ps.from_dataset(Object(factor)).cache(tmp_path).batch(10), 1)
        assert batch["x"].tolist() == [number * factor for number in range(10)]


# Limits


@PLACES
def test_what_has_no_room_is_made_again(place: str, tmp_path: Path) -> None:
    function = Counting()
    data = cached(ps.from_arrays(columns()).map(function), place, tmp_path, size=40_000).shuffle(seed=1).batch(10)
    wanted = epochs(ps.from_arrays(columns()).map(Counting()).shuffle(seed=1).batch(10), 4)
    same(epochs(data, 4), wanted)
    again = Counter(count for count in function.made.values())
    assert len(again) >= 1


@pytest.mark.slow
def test_a_full_disk_is_said_and_training_goes_on(tmp_path: Path) -> None:
    code = (
        "import resource, signal, warnings, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "from support.cached_child import dataset, digest;"
        "warnings.simplefilter('always');"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000));"
        f"print(digest(dataset({str(tmp_path / 'kept')!r}), 2))"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=TESTS, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == digest(plain(), 2)
    assert "cache(): no more rows are kept" in ran.stderr
    assert "training continues" in ran.stderr
    assert digest(dataset(str(tmp_path / "kept")), 2) == digest(plain(), 2)


def plain() -> ps.Dataset:
    (cache,) = [node for node in flow(dataset("x").root) if isinstance(node, Cache)]
    return ps.Dataset(cache.input).shuffle(seed=1).batch(20)


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir(mode=0o500)
    with pytest.warns(UserWarning, match=r"cache\(\): no more rows are kept"):
        assert digest(dataset(str(kept)), 2) == digest(plain(), 2)


def test_a_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("")
    with pytest.warns(UserWarning, match=r"cache\(\): no more rows are kept"):
        assert digest(dataset(str(tmp_path / "kept")), 2) == digest(plain(), 2)


# Damage


def kept_file(folder: Path) -> Path:
    (found,) = (path for path in folder.iterdir() if path.is_file())
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("damage", "share"), crossed(["zeros", "cut", "gone", "flipped", "longer"], [0.001, 0.02, 0.5, 0.98])
)
def test_damaged_files_give_no_wrong_row(share: float, damage: str, tmp_path: Path) -> None:
    """In the head, in the table, and in the bytes of rows."""
    wanted = digest(plain())
    assert digest(dataset(str(tmp_path))) == wanted
    gc.collect()  # closed, so that it is opened again
    path = kept_file(tmp_path)
    content = bytearray(path.read_bytes())
    middle = int(len(content) * share)
    if damage == "zeros":
        content[middle : middle + 3000] = bytes(len(content[middle : middle + 3000]))
    elif damage == "cut":
        del content[middle:]
    elif damage == "longer":
        content += bytes(5000)
    else:
        content[middle] ^= 255
    path.unlink() if damage == "gone" else path.write_bytes(content)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(2):
            assert digest(dataset(str(tmp_path))) == wanted
            gc.collect()
    texts = [str(one.message) for one in said]
    assert all("cache()" in text for text in texts)
    if damage == "cut" or (damage in ("zeros", "flipped") and share >= 0.5):
        assert any("made anew" in text for text in texts), texts


@pytest.mark.slow
def test_a_header_of_any_bytes_is_no_cache(tmp_path: Path) -> None:
    assert digest(dataset(str(tmp_path))) == digest(plain())
    (path,) = tmp_path.glob(f"*{SUFFIX}")
    for junk in (b"", b"PSTKROW2", os.urandom(5000)):
        gc.collect()
        path.write_bytes(junk)
        with pytest.warns(UserWarning, match="made anew"):
            assert digest(dataset(str(tmp_path))) == digest(plain())


def test_files_of_an_earlier_version_are_removed(tmp_path: Path) -> None:
    """It kept the bytes of rows in files of their own."""
    assert digest(dataset(str(tmp_path))) == digest(plain())
    gc.collect()
    path = kept_file(tmp_path)
    path.write_bytes(b"PSTKROW1" + path.read_bytes()[8:])
    for suffix in ("fixed", "bytes"):
        (tmp_path / f"{path.stem}-0123456789ab.{suffix}").write_bytes(b"rows")
    with pytest.warns(UserWarning, match="of another version; what is damaged is made anew"):
        assert digest(dataset(str(tmp_path))) == digest(plain())
    assert kept_file(tmp_path) == path


@pytest.mark.slow
def test_files_that_are_cut_while_they_are_read(tmp_path: Path) -> None:
    wanted = digest(plain(), 3)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for share in (0.001, 0.02, 0.5, 0.98):
            data = dataset(str(tmp_path))
            with ps.Loader(data, rank=0, world_size=1, prefetch=1) as loader:
                first = [keep(batch) for _ in range(2) for batch in loader]
                path = kept_file(tmp_path)
                os.truncate(path, int(path.stat().st_size * share))
                try:
                    found = [*first, *(keep(batch) for batch in loader)]
                except ps.DataError as error:
                    found, text = [], str(error)
                assert digest_of(found) == wanted if found else "was cut while it was read" in text
            del loader
            gc.collect()
    assert all("cache()" in str(one.message) for one in said)


# Processes


def child(folder: Path, pause_s: float = 0.0) -> subprocess.Popen[str]:
    code = f"from support.cached_child import dataset, digest; print(digest(dataset({str(folder)!r})))"
    pause = {**os.environ, "PENSTOCK_TEST_PAUSE_S": str(pause_s)}
    return subprocess.Popen([sys.executable, "-c", code], cwd=TESTS, stdout=subprocess.PIPE, text=True, env=pause)


@pytest.mark.slow
def test_who_is_killed_while_writing_leaves_rows_that_are_right(tmp_path: Path) -> None:
    wanted = digest(plain())
    for pause_s in (0.002, 0.005):
        running = child(tmp_path, pause_s)
        until = time.monotonic() + 30
        while not any(tmp_path.glob(f"*{SUFFIX}")) and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(0.03)
        running.send_signal(signal.SIGKILL)
        running.communicate()
    assert digest(dataset(str(tmp_path))) == wanted
    assert digest(dataset(str(tmp_path))) == wanted


@pytest.mark.slow
def test_two_processes_at_once(tmp_path: Path) -> None:
    running = [child(tmp_path, 0.001) for _ in range(2)]
    found = {one.communicate()[0].strip() for one in running}
    assert found == {digest(plain())}
    assert digest(dataset(str(tmp_path))) == digest(plain())
    assert len(files(tmp_path)) == 1


def test_a_plan_with_a_cache_can_be_sent() -> None:
    data = ps.from_arrays(columns()).map(Counting()).cache().batch(10)
    epochs(data, 1)
    sent = pickle.loads(pickle.dumps(data))
    assert len(pickle.dumps(data)) < 100_000
    same(epochs(sent), epochs(data))


def test_two_loaders_and_single_steps_share_rows(tmp_path: Path) -> None:
    function = Counting()
    data = ps.from_arrays(columns()).map(function).cache().batch(10)
    epochs(data, 1)
    function.rows.clear()
    with ps.Loader(data, rank=0, world_size=1) as loader:
        assert_same(loader.batch_at(0, 3), epochs(data, 1)[3])
    assert not function.made


def test_explain_opens_nothing(tmp_path: Path) -> None:
    data = ps.from_arrays(columns()).cache(tmp_path / "kept").batch(10)
    assert "cache" in data.explain()
    assert not (tmp_path / "kept").exists()
    assert json.dumps(ps.Loader(data, rank=0, world_size=1).state_dict())


def test_stats_and_report_say_what_is_kept_and_where_it_would_pay() -> None:
    def slow(batch: dict[str, Any]) -> dict[str, Any]:
        time.sleep(0.05)
        return {"y": batch["i"] * 2}

    data = ps.from_arrays(columns()).map(slow)
    with ps.Loader(data.batch(20), rank=0, world_size=1, cpus=1) as loader:
        for _ in loader:
            pass
        assert "would keep 100 rows of 8 bytes" in loader.report()
    with ps.Loader(data.cache().batch(20), rank=0, world_size=1) as loader:
        for _ in range(3):
            for _ in loader:
                pass
        (found,) = loader.stats()["cache"]
        assert (found["where"], found["rows"], found["made"] >= 100, found["hits"] > 0) == (
            "in memory",
            100,
            True,
            True,
        )
        assert "cache in memory: 100 rows" in loader.report()
        assert "would keep" not in loader.report()


def test_the_report_says_in_which_dataset_of_a_mix_a_cache_would_pay() -> None:
    def slow(batch: dict[str, Any]) -> dict[str, Any]:
        time.sleep(0.05)
        return {"y": batch["i"] * 2}

    def double(batch: dict[str, Any]) -> dict[str, Any]:
        return {"y": batch["y"] * 2}

    quick = ps.from_arrays(columns()).map(lambda batch: {"y": batch["i"]})
    data = ps.mix([quick, ps.from_arrays(columns()).map(slow)], weights=[0.5, 0.5], rows=100)
    for plan, wanted in (
        (data, ".slow', in dataset 1 of mix, would keep its rows; from the second epoch on"),
        (data.map(double), ".double' would keep 100 rows of 8 bytes"),
    ):
        with ps.Loader(plan.batch(20), rank=0, world_size=1, cpus=1) as loader:
            for _ in loader:
                pass
            assert wanted in loader.report()


def test_nothing_is_read_ahead_of_what_is_kept(tmp_path: Path) -> None:
    data = ps.zip([ps.from_arrays(columns()).cache(tmp_path), ps.from_arrays({"mate": np.arange(100)})]).batch(10)
    with ps.Loader(data, rank=0, world_size=1, epochs=1) as loader:  # nothing of a next epoch is on its way
        ids = loader.sample_ids(0, 3)
        assert lowered_of(loader).to_read(ids).tolist() == [*ids, *(ids + 100)]
        for _ in loader:
            pass
        assert lowered_of(loader).to_read(ids).tolist() == (ids + 100).tolist()


def test_caches_around_a_select_hold_different_rows(tmp_path: Path) -> None:
    # The second one gave the first one's columns: nothing of the select was in its key.
    whole = ps.from_arrays({"id": np.arange(6), "x": np.arange(6) / 2})
    for folder in (str(tmp_path), None):
        data = whole.cache(folder).select("x").cache(folder).batch(2)
        for _ in range(2):
            with ps.Loader(data, cpus=1, prefetch=1) as loader:
                batches = [dict(batch) for batch in loader]
            assert [list(batch) for batch in batches] == [["x"]] * 3
            assert [batch["x"].tolist() for batch in batches] == [[0, 0.5], [1, 1.5], [2, 2.5]]
