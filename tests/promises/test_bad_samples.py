"""Bad samples are left out, or others take their places, exactly: the same on any number of ranks and after every restart."""

from __future__ import annotations

import itertools
import json
import warnings
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.observe.ledger.verify import verify
from support.images import encoded, picture
from support.promises import assert_same, join, keep
from support.seams import lowered_of
from support.tfrecords import example, integers, write
from support.tries import tries

SIZE = 12
Make = Callable[[Path, bool], ps.Dataset]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="penstock: .*More bad samples are counted")
        yield


# Data: the same with bad samples and without; "x" says which sample a row is


def jsonl(
    folder: Path,
    is_bad: bool,
    *,
    rows: int = 120,
    bad: frozenset[int] = frozenset({5, 17, 18, 19, 99}),
    first: int = 100,
) -> ps.Dataset:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{first}.jsonl"
    lines = [f'{{"x": {first + row}}}' for row in range(rows)]
    path.write_text(
        "".join(f"{line[:-1] + ']' if is_bad and row in bad else line}\n" for row, line in enumerate(lines))
    )
    return ps.read(path, columns={"x": ps.Column(feature="x", dtype="int64")})


def tfrecord(folder: Path, is_bad: bool) -> ps.Dataset:
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(2):
        path = write(folder / f"{number}.tfrecord", [example(x=integers(60 * number + row)) for row in range(60)])
        content = bytearray(path.read_bytes())
        length = len(content) // 60
        for row in (0, 7, 8, 31) if is_bad else ():
            content[row * length + length - 6] ^= 4  # in the data, so that the checksum is wrong
        path.write_bytes(content)
    return ps.read(folder)


def files(folder: Path, is_bad: bool) -> ps.Dataset:
    for number in range(48):
        path = folder / f"{number % 3}" / f"{number:02}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        content = encoded(picture(40 + number % 5, 36, seed=number), "JPEG")
        if is_bad and number in (4, 30):
            content = content[: len(content) // 3]
        if is_bad and number in (0, 31):
            content = b"not an image" + content[12:]
        path.write_bytes(content)
    return ps.read(folder)


def numbered(row: dict[str, Any]) -> dict[str, Any]:
    return {"x": row["x"] * 10}


def refused(row: dict[str, Any]) -> dict[str, Any]:
    if row["x"] % 7 == 3:
        raise ps.DataError("no face in it")
    return {"x": row["x"], "twice": 2.0 * row["x"]}


def images(folder: Path, is_bad: bool) -> ps.Dataset:
    ops = [ps.image.Decode(), ps.image.RandomResizedCrop(16), ps.image.RandomHorizontalFlip()]
    return files(folder, is_bad).shuffle(seed=3).transform(image=ops)


def even(batch: dict[str, Any]) -> Any:
    return batch["x"] % 2 == 0


PLANS: dict[str, Make] = {
    "lines": lambda folder, bad: jsonl(folder, bad).shuffle(seed=1),
    "lines in order": jsonl,
    "records": lambda folder, bad: tfrecord(folder, bad).shuffle(seed=2, window_blocks=3),
    "images": images,
    "mixed": lambda folder, bad: ps.mix([jsonl(folder, bad).shuffle(seed=1).map_rows(numbered), jsonl(folder, bad, rows=30, first=500, bad=frozenset({1, 3})).map_rows(numbered)], weights=[3, 1]),
    "joined": lambda folder, bad: ps.concat([jsonl(folder, bad), jsonl(folder, bad, rows=60, first=500)]).shuffle(seed=4),
    "side by side": lambda folder, bad: ps.zip([jsonl(folder, bad).map_rows(numbered), ps.from_arrays({"y": np.arange(120)})]).shuffle(seed=5),
    "refused": lambda folder, bad: jsonl(folder, False).shuffle(seed=6).map_rows(refused if bad else (lambda row: {"x": row["x"], "twice": 2.0 * row["x"]})),
    "chosen": lambda folder, bad: jsonl(folder, bad).split({"train": 0.8, "val": 0.2}, seed=1)["train"].shuffle(seed=7).repeat(2),
}  # fmt: skip


@pytest.fixture(params=PLANS)
def make(request: pytest.FixtureRequest) -> Make:
    return PLANS[request.param]


def ids_of(batch: dict[str, Any]) -> list[Any]:
    """What tells rows from each other: the column x, or the names of files."""
    if "x" in batch:
        return np.asarray(batch["x"]).tolist()
    return [Path(path).name for path in batch["path"].to_pylist()]


def source_of(row: Any) -> int:
    """Which of the datasets of the mix a row is of."""
    return int(isinstance(row, int) and row >= 5000)


def run(
    plan: ps.Dataset,
    ranks: int = 1,
    *,
    state: Any = None,
    steps: int | None = None,
    epochs: int = 2,
    **options: Any,
) -> tuple[list[dict[str, Any]], Any]:
    """The global batches that so many ranks make together, and the state after `steps` of them, or after all."""
    loaders = [ps.Loader(plan, rank=rank, world_size=ranks, **options) for rank in range(ranks)]
    if ranks > 1 and options.get("on_error") == "skip":
        plan.count_rows(epochs=epochs + (0 if state is None else state["epoch"]), on_error="skip")
    if ranks > 1 or options.get("on_error") != "skip":  # one rank finds where an epoch ends
        assert len({len(loader) for loader in loaders}) == 1, "ranks differ in steps"
    for loader in loaders:
        if state is not None:
            loader.load_state_dict(state)
    passes = [chain.from_iterable(map(iter, [loader] * epochs)) for loader in loaders]
    found: list[dict[str, Any]] = []
    while len(found) != steps:
        batches = [keep(batch) for one in passes if (batch := next(one, None)) is not None]
        if not batches:
            break
        assert len(batches) == ranks, "a rank ends before the others"
        found.append(join(batches))
    states = [json.loads(json.dumps(loader.state_dict())) for loader in loaders]
    for loader in loaders:
        loader.close()
    return found, ps.merge_states(states)


@pytest.mark.slow
@pytest.mark.parametrize("on_error", ["skip", "substitute"])
def test_any_number_of_ranks_and_any_restart(make: Make, on_error: str, tmp_path: Path) -> None:
    plan = make(tmp_path, True).batch(SIZE, drop_last=True)
    whole, _ = run(plan, on_error=on_error)
    for ranks in (3, 2, 4)[: tries(3, at_least=1)]:
        for step, (found, wanted) in enumerate(zip(run(plan, ranks, on_error=on_error)[0], whole, strict=True)):
            assert_same(found, wanted, f"{ranks} ranks, step {step}")
    steps = len(whole) // 2
    for ranks, stop, others in [(1, 2, 3), (2, steps, 1), (4, steps + 1, 2)][: tries(3, at_least=2)]:
        _, state = run(plan, ranks, steps=stop, on_error=on_error)
        assert state["on_error"] == on_error
        found, _ = run(plan, others, state=state, on_error=on_error)
        for step, (here, wanted) in enumerate(zip(found, whole[stop:], strict=False), stop):
            assert_same(here, wanted, f"from {ranks} to {others} ranks after {stop} steps, step {step}")
        assert len(found) >= len(whole) - stop


def test_skip_gives_the_good_rows_in_order(make: Make, tmp_path: Path) -> None:
    """An epoch is what it would be if none were bad, lane by lane, with the same random numbers, but for the bad ones; a mix keeps its weights and ends where a dataset has no good row left."""
    good = make(tmp_path / "good", False).batch(SIZE)
    plan = make(tmp_path / "bad", True).batch(SIZE)
    with (
        ps.Loader(good) as plain,
        ps.Loader(good, on_error="skip") as loader,
        ps.Loader(plan, on_error="skip") as skipping,
    ):
        rows = lowered_of(plain).order.rows
        lanes = [
            [rows.ids(epoch, lane, 0, int(rows.lane_rows()[lane])).tolist() for lane in range(SIZE)]
            for epoch in range(3)
        ]
        names, wanted = dict[int, Any](), list[list[dict[str, Any]]]()
        for epoch in range(3):
            in_plain = [ids_of(batch) for batch in plain]
            for step, batch in enumerate(in_plain):
                names |= zip(plain.sample_ids(epoch, step).tolist(), batch, strict=True)
            wanted.append([keep(batch) for batch in loader])
            assert [ids_of(batch) for batch in wanted[-1]] == in_plain, "without a bad sample no row is elsewhere"
        found = [[keep(batch) for batch in skipping] for _ in range(3)]
    missing = {*names.values()} - {row for epoch in found for batch in epoch for row in ids_of(batch)}
    assert missing, "no bad sample came"
    for epoch, batches in enumerate(found):
        given = [row for batch in batches for row in ids_of(batch)]
        if {*map(source_of, given)} == {0}:
            in_lanes = [[names[row] for row in lane if names[row] not in missing] for lane in lanes[epoch]]
            even = min(map(len, in_lanes))
            turns = [lane[step] for step in range(even) for lane in in_lanes]
            assert given == [*turns, *itertools.chain.from_iterable(lane[even:] for lane in in_lanes)]
        assert all(len(batch[next(iter(batch))]) == SIZE for batch in batches[:-1])
        columns = dict[Any, list[dict[str, Any]]]()
        for batch in wanted[epoch]:
            for number, row in enumerate(ids_of(batch)):
                columns.setdefault(row, []).append(
                    {name: np.asarray(batch[name][number]) for name in batch.keys() - {"path"}}
                )
        for batch in batches:
            for number, row in enumerate(ids_of(batch)):
                here = {name: np.asarray(batch[name][number]) for name in batch.keys() - {"path"}}
                assert row not in columns or any(
                    all(np.array_equal(here[name], one[name]) for name in one) for one in columns[row]
                )


def test_substitutes_stand_in_the_places_of_bad_rows(make: Make, tmp_path: Path) -> None:
    """All good rows are where they would be if none were bad, with the same random numbers."""
    options: dict[str, Any] = {"size": SIZE, "pad": True}
    plan = make(tmp_path / "bad", True).batch(**options)
    found, _ = run(plan, on_error="substitute")
    wanted, _ = run(make(tmp_path / "good", False).batch(**options))
    assert len(found) == len(wanted)
    bad, other = set(), set()
    for here, there in zip(found, wanted, strict=True):
        for number, (row, good) in enumerate(zip(ids_of(here), ids_of(there), strict=True)):
            if row != good:
                bad.add(good)
                other.add(row)
            for name in here.keys() - {"path"} if row == good else ():
                assert np.array_equal(here[name][number], there[name][number])
    assert bad, "no bad sample came"
    assert not bad & {row for step in found for row in ids_of(step)}, "a bad one came"
    assert other <= {row for step in wanted for row in ids_of(step)}, "what the plan leaves out came"
    with ps.Loader(plan, on_error="substitute") as loader:
        for number in reversed(range(len(found))):
            assert_same(loader.batch_at(*divmod(number, len(loader))), found[number], f"batch {number}")


def test_a_function_of_whole_batches_gets_whole_batches(tmp_path: Path) -> None:
    sizes = []

    def noted(batch: dict[str, Any]) -> dict[str, Any]:
        sizes.append(len(batch["x"]))
        return {**batch, "mean": np.full(len(batch["x"]), batch["x"].mean())}

    plan = jsonl(tmp_path, True).shuffle(seed=1).map(noted).batch(SIZE)
    with ps.Loader(plan, on_error="substitute") as loader:
        for batch in loader:
            assert (batch["mean"] == batch["x"].mean()).all()
    assert {*sizes} == {SIZE}


@pytest.mark.slow
@pytest.mark.parametrize("on_error", ["skip", "substitute"])
def test_below_other_lane_stages(on_error: str, tmp_path: Path) -> None:
    def plan(folder: Path, bad: bool) -> ps.Dataset:
        return (
            jsonl(folder, bad).shuffle(seed=1).map_rows(refused if bad else numbered).filter(even).batch(SIZE, steps=9)
        )

    whole, _ = run(plan(tmp_path, True), on_error=on_error)
    for batch in whole:
        assert not {row for row in ids_of(batch) if row % 7 == 3 or row % 2}
    _, state = run(plan(tmp_path, True), 2, steps=4, on_error=on_error)
    found, _ = run(plan(tmp_path, True), 3, state=state, on_error=on_error)
    for here, wanted in zip(found, whole[4:], strict=False):
        assert_same(here, wanted)


def test_in_buckets_substitutes_are_of_the_same_bucket(tmp_path: Path) -> None:
    data = jsonl(tmp_path, True)
    by = np.arange(120) % 5
    plan = data.shuffle(seed=1).batch_bucketed(SIZE, by=by, boundaries=[2, 4], drop_last=True)
    for batch in run(plan, on_error="substitute")[0]:
        buckets = {int(np.searchsorted([2, 4], (x - 100) % 5, side="right")) for x in batch["x"]}
        assert len(buckets) == 1
    with pytest.raises(ps.PlanError, match="choose on_error='substitute'"):
        ps.Loader(plan, on_error="skip")


@pytest.mark.slow
def test_nearly_all_rows_are_bad(tmp_path: Path) -> None:
    data = jsonl(tmp_path, True, rows=200, bad=frozenset(range(1, 200)) - {*range(0, 200, 5)}).shuffle(seed=1)
    good = {100 + row for row in range(0, 200, 5)}
    for on_error in ("skip", "substitute"):
        found, _ = run(data.batch(SIZE), on_error=on_error)
        assert {row for batch in found for row in ids_of(batch)} == good if on_error == "skip" else good


@pytest.mark.slow
def test_without_a_good_row(tmp_path: Path) -> None:
    data = jsonl(tmp_path, False).shuffle(seed=1).map_rows(_never).batch(SIZE)
    for on_error, message in (("substitute", "and so are the 64 rows that were to take its place|no accident"),):
        for options in ({}, {"cpus": 1, "prefetch": 1}):
            with pytest.raises(ps.DataError, match=message):
                run(data, on_error=on_error, max_errors=10**6, **options)
    with pytest.warns(UserWarning, match="epoch 0 has no batch"), ps.Loader(data, on_error="skip") as loader:
        assert not list(loader)


def _never(row: dict[str, Any]) -> dict[str, Any]:
    raise ps.DataError("not this one")


class Numbers:
    """A map-style dataset with bad items: two by an error of its own, and one of another type."""

    def __len__(self) -> int:
        return 40

    def __getitem__(self, number: int) -> dict[str, Any]:
        if number in (5, 31):
            raise ps.DataError("cannot be had")
        return {"x": "text" if number == 6 else number}


def test_items_of_an_object(tmp_path: Path) -> None:
    plan = ps.from_dataset(Numbers()).shuffle(seed=1).batch(8)
    for on_error in ("skip", "substitute"):
        path = tmp_path / f"{on_error}.jsonl"
        found, _ = run(plan, on_error=on_error, quarantine=path)
        assert {*range(40)} - {row for batch in found for row in ids_of(batch)} == {5, 6, 31}
        assert sorted((one["sample"], one["where"], one["file"]) for one in lines_of(path)) == [
            (5, "sample 5", None),
            (6, "sample 6", None),
            (31, "sample 31", None),
        ]
    with pytest.raises(ps.DataError, match=r"cannot be had|sample 6"):
        run(plan)


# What is no bad sample


@pytest.mark.slow
def test_other_exceptions_are_bugs(tmp_path: Path) -> None:
    def wrong(row: dict[str, Any]) -> dict[str, Any]:
        return {"x": row["y"]}

    def broken(batch: dict[str, Any]) -> dict[str, Any]:
        raise ps.DataError("the whole batch")

    data = jsonl(tmp_path, True)
    for on_error in ("skip", "substitute"):
        with pytest.raises(KeyError):
            run(data.map_rows(wrong).batch(SIZE), on_error=on_error)
        with pytest.raises(ps.DataError, match="the whole batch"):
            run(data.map(broken).batch(SIZE), on_error=on_error)


def test_by_default_the_first_bad_sample_is_an_error(tmp_path: Path) -> None:
    plan = jsonl(tmp_path, True).batch(SIZE)
    with ps.Loader(plan) as loader:
        with pytest.raises(ps.DataError, match=r"100\.jsonl, record 5"):
            next(iter(loader))
        assert "on_error" not in loader.state_dict()
        assert loader.stats()["errors"] == {"samples": 0, "met": 0, "sources": {}}


# Ceiling, figures, quarantine


@pytest.mark.slow
def test_too_many(tmp_path: Path) -> None:
    plan = jsonl(tmp_path, True).batch(SIZE)
    for on_error in ("skip", "substitute"):
        assert len(run(plan, on_error=on_error, max_errors=5)[0]) == 20
        with pytest.raises(ps.DataError, match=r"record \d+.*that makes 5 bad samples, more than max_errors=4 allows"):
            run(plan, on_error=on_error, max_errors=4)


def test_before_there_are_too_many_all_steps_come(tmp_path: Path) -> None:
    with ps.Loader(jsonl(tmp_path, True).batch(SIZE), on_error="substitute", max_errors=4) as loader:
        with pytest.raises(ps.DataError, match="more than max_errors=4"):
            list(loader)
        assert loader.step == 99 // SIZE


@pytest.mark.slow
def test_too_large_a_part(tmp_path: Path) -> None:
    plan = jsonl(tmp_path, True, rows=2000, bad=frozenset(range(100, 2000, 40))).batch(SIZE)
    for on_error in ("skip", "substitute"):
        run(plan, on_error=on_error, max_errors=0.04, epochs=3)
        with pytest.raises(ps.DataError, match=r"makes \d+ of [\d,]+ rows so far, more than max_errors=0.01 allows"):
            run(plan, on_error=on_error, max_errors=0.01, epochs=3)


def test_the_first_one_is_a_warning(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with ps.Loader(jsonl(tmp_path, True).batch(SIZE), on_error="skip") as loader:
            with pytest.warns(UserWarning, match=r"record \d+.*it is left out.*stats\(\)\[\"errors\"\]"):
                list(loader)
            list(loader)


def test_figures(tmp_path: Path) -> None:
    data = ps.concat([jsonl(tmp_path, True), jsonl(tmp_path, True, first=500, bad=frozenset({7}))])
    with ps.Loader(data.batch(SIZE), on_error="substitute", epochs=1) as loader:
        list(loader)
        wanted = {str(tmp_path / "100.jsonl"): 5, str(tmp_path / "500.jsonl"): 1}
        assert loader.stats()["errors"] == {"samples": 6, "met": 6, "sources": wanted}
        assert "bad samples: 6 (5 of " in loader.report()


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("on_error", ["skip", "substitute"])
def test_quarantine(on_error: str, tmp_path: Path) -> None:
    plan, path = jsonl(tmp_path, True).shuffle(seed=1).batch(SIZE), tmp_path / "bad.jsonl"
    run(plan, 2, on_error=on_error, quarantine=path)
    found = lines_of(path)
    assert {one["record"] for one in found} == {5, 17, 18, 19, 99}
    some = next(one for one in found if one["record"] == 17)
    assert some["where"].startswith(f"{tmp_path}/100.jsonl, record 17, byte ")
    assert some["file"] == some["source"] == f"{tmp_path}/100.jsonl"
    assert (some["sample"], some["data"], some["do"]) == (17, plan.digest, "repair the line")
    assert "not JSON" in some["found"]
    assert some["epoch"] >= 0
    assert (some["step"] is None) == (on_error == "skip")
    path.write_bytes(path.read_bytes()[:-10])  # killed in the middle of a line
    for _ in range(2):
        run(plan, on_error=on_error, quarantine=path)
    keys = [json.loads(line)["sample"] for line in path.read_text().splitlines() if line.endswith("}")]
    assert sorted({*keys}) == [5, 17, 18, 19, 99]
    run(plan, 2, on_error=on_error, quarantine=tmp_path / "rank{rank}.jsonl")
    ranks = [{one["sample"] for one in lines_of(tmp_path / f"rank{rank}.jsonl")} for rank in range(2)]
    assert ranks[0] | ranks[1] == {5, 17, 18, 19, 99}
    samples = [len(lines_of(tmp_path / f"rank{rank}.jsonl")) for rank in range(2)]
    assert samples == [len(ranks[0]), len(ranks[1])], "each once"


# States


def test_a_run_that_stopped_at_a_bad_sample_goes_on(tmp_path: Path) -> None:
    """A state that was saved with on_error="raise" goes on with either of the others, where the run stopped."""
    plan = jsonl(tmp_path, True, bad=frozenset({31, 47, 60})).batch(SIZE)
    with ps.Loader(plan) as loader:
        with pytest.raises(ps.DataError):
            list(loader)
        state = loader.state_dict()
        assert state["step"] == 31 // SIZE
    for on_error in ("substitute", "skip"):
        with pytest.warns(UserWarning, match=f"on_error='raise'; training continues with '{on_error}'"):
            found, _ = run(plan, 2, state=state, on_error=on_error, epochs=1)
        whole, _ = run(jsonl(tmp_path / "good", False).batch(SIZE), epochs=1)
        assert len(found) == len(whole) - 31 // SIZE
        bad = {131, 147, 160}
        good = [row for row in ids_of(whole[31 // SIZE]) if row not in bad]
        assert [row for row in ids_of(found[0]) if row in good] == good
        assert not bad & {row for batch in found for row in ids_of(batch)}


def test_states_say_what_is_done_about_bad_samples(tmp_path: Path) -> None:
    plan = jsonl(tmp_path, True).batch(SIZE)
    _, skipped = run(plan, steps=2, on_error="skip")
    for on_error in ("raise", "substitute"):
        with pytest.raises(ps.StateError, match=rf"saved with on_error='skip', .* of on_error='{on_error}'"):
            run(plan, state=skipped, on_error=on_error)
    _, substituted = run(plan, steps=2, on_error="substitute")
    with (
        pytest.warns(UserWarning, match="on_error='substitute'; training continues with 'raise'"),
        pytest.raises(ps.DataError),
    ):
        run(plan, state=substituted)
    filtered = jsonl(tmp_path, False).shuffle(seed=1).filter(even).batch(SIZE, steps=5)
    _, plain = run(filtered, steps=2)
    with (
        pytest.warns(UserWarning, match="continues with 'skip'"),
        pytest.raises(ps.StateError, match="without on_error='skip'"),
    ):
        run(filtered, state=plain, on_error="skip")


def test_without_bad_samples_substitute_changes_nothing(make: Make, tmp_path: Path) -> None:
    plan = make(tmp_path, False).batch(SIZE)
    for found, wanted in zip(run(plan, on_error="substitute")[0], run(plan)[0], strict=True):
        assert_same(found, wanted)


def test_steps_that_were_made_together_fail_apart(tmp_path: Path) -> None:
    """Short steps are made together, and bad rows cost none of the good ones of their item."""
    plan = jsonl(tmp_path, True).batch(SIZE)
    with ps.Loader(plan, on_error="substitute") as loader:
        assert lowered_of(loader).steps_per_item > 1
        assert len(list(loader)) == 10


@pytest.mark.parametrize("on_error", ["skip", "substitute"])
def test_ledgers_prove_what_the_plan_says(on_error: str, tmp_path: Path) -> None:
    plan, ledger = jsonl(tmp_path, True).shuffle(seed=1).batch(SIZE), tmp_path / "ledger"
    _, state = run(plan, 2, steps=4, on_error=on_error, ledger=ledger)
    run(plan, 3, state=state, epochs=1, on_error=on_error, ledger=ledger)
    found = verify([str(ledger)])
    assert found.is_well, [finding.words for finding in found.wrong]
    assert [epoch.complete_steps for epoch in found.epochs] == [10]


# What cannot work


def test_bad_arguments(tmp_path: Path) -> None:
    plan = jsonl(tmp_path, True).batch(SIZE)
    for options, message in (
        ({"on_error": "ignore"}, "choose 'raise', 'substitute' or 'skip'"),
        ({"on_error": "skip", "max_errors": -1}, "max_errors=-1"),
        ({"on_error": "skip", "max_errors": 1.5}, "max_errors=1.5"),
        ({"on_error": "skip", "max_errors": True}, "max_errors=True"),
        ({"quarantine": tmp_path / "bad.jsonl"}, "on_error='substitute' or 'skip'"),
        ({"on_error": "skip", "quarantine": tmp_path / "no" / "bad.jsonl"}, "there is no folder"),
    ):
        with pytest.raises(ps.PlanError, match=message):
            ps.Loader(plan, **options)


def test_what_has_no_substitutes(tmp_path: Path) -> None:
    data = jsonl(tmp_path, True)
    tokens = ps.from_arrays({"x": np.arange(40), "length": np.full(40, 5)}).batch_tokens(100, by="length")
    for on_error in ("skip", "substitute"):
        with pytest.raises(ps.PlanError, match="with batch_tokens a batch has room"):
            ps.Loader(tokens, on_error=on_error)
    with pytest.raises(ps.PlanError, match="write map_rows before it, or choose on_error='skip'"):
        ps.Loader(data.filter(even).map_rows(numbered).batch(SIZE, steps=3), on_error="substitute")
    once = ps.from_iterable(lambda: iter([{"x": 1}] * 24), samples=24, spool=False).batch(SIZE)
    with pytest.raises(ps.PlanError, match="drawn in one order"):
        ps.Loader(once, on_error="substitute")


# Leaving them out from then on


@pytest.mark.parametrize("kind", ["lines", "records", "images"])
def test_excluded(kind: str, tmp_path: Path) -> None:
    make, quarantine = {"lines": jsonl, "records": tfrecord, "images": files}[kind], tmp_path / "bad.jsonl"
    decode = {"image": [ps.image.Decode(), ps.image.Resize(8)]} if kind == "images" else {}

    def plan(data: ps.Dataset) -> ps.Dataset:
        return (data.shuffle(seed=1).transform(**decode) if decode else data.shuffle(seed=1)).batch(SIZE)

    data = make(tmp_path / "data", True)
    with ps.Loader(plan(data), on_error="substitute", quarantine=quarantine) as loader:
        list(loader)
        bad = loader.stats()["errors"]["samples"]
    where = next((tmp_path / "data").glob("*.jsonl")) if kind == "lines" else tmp_path / "data"
    left = ps.read(where, exclude=quarantine)
    assert len(left) == len(data) - bad
    rows = [row for batch in run(plan(left), epochs=1)[0] for row in ids_of(batch)]
    assert len({*rows}) == len(rows) == len(left), "each good sample once, and no error"
    assert left.digest == data.digest
    with ps.Loader(plan(left)) as loader, ps.Loader(plan(data), on_error="substitute") as other:
        next(iter(loader))
        with pytest.raises(ps.StateError, match="exclude"):
            other.load_state_dict(loader.state_dict())
    _, state = run(plan(left), 2, steps=1, epochs=1)
    whole, _ = run(plan(left), epochs=1)
    for found, wanted in zip(run(plan(left), 3, state=state, epochs=1)[0], whole[1:], strict=True):
        assert_same(found, wanted)


def test_excluded_of_data_that_grew(tmp_path: Path) -> None:
    """Bad samples are known by file and record where the data is other data by now."""
    data, quarantine = tfrecord(tmp_path / "data", True), tmp_path / "bad.jsonl"
    run(data.batch(SIZE), on_error="substitute", quarantine=quarantine)
    write(tmp_path / "data" / "0-more.tfrecord", [example(x=integers(1000 + row)) for row in range(30)])
    grown = ps.read(tmp_path / "data")
    assert grown.digest != data.digest
    left = ps.read(tmp_path / "data", exclude=[quarantine])
    assert len(left) == len(grown) - 8
    assert len({row for batch in run(left.batch(SIZE), epochs=1)[0] for row in ids_of(batch)}) == len(left)
    pairs = ps.zip([left, ps.from_arrays({"y": np.arange(len(left))})])
    for batch in run(pairs.shuffle(seed=1).batch(SIZE), epochs=1)[0]:
        assert len({*batch["y"].tolist()}) == len(batch["x"])


def test_excluded_what_is_not_there(tmp_path: Path) -> None:
    jsonl(tmp_path, True, rows=6, bad=frozenset())
    with pytest.raises(ps.SourceError, match=r"no quarantine file is there; Loader\(…, quarantine=…\) writes one"):
        ps.read(tmp_path / "100.jsonl", exclude=tmp_path / "none.jsonl")
    with pytest.raises(ps.DataError, match="line 1: is no line of a quarantine file"):
        ps.read(tmp_path / "100.jsonl", exclude=tmp_path / "100.jsonl")
    line = {"where": "w", "sample": 3, "source": "s", "data": "of others", "found": "f", "file": "/x", "record": 3}
    (tmp_path / "bad.jsonl").write_text(json.dumps(line) + "\n")
    with pytest.warns(UserWarning, match="none of the 1 bad samples there lies in jsonl files"):
        assert len(ps.read(tmp_path / "100.jsonl", exclude=tmp_path / "bad.jsonl")) == 6
    mine = [{**line, "file": str(tmp_path / "100.jsonl"), "record": row} for row in range(6)]
    (tmp_path / "bad.jsonl").write_text("".join(json.dumps(one) + "\n" for one in mine))
    with pytest.raises(ps.PlanError, match="all 6 rows are bad samples"):
        ps.read(tmp_path / "100.jsonl", exclude=tmp_path / "bad.jsonl")
    (tmp_path / "bad.jsonl").write_bytes(b"")
    assert len(ps.read(tmp_path / "100.jsonl", exclude=tmp_path / "bad.jsonl")) == 6


# With other verbs


def texts(folder: Path, is_bad: bool) -> ps.Dataset:
    folder.mkdir(parents=True, exist_ok=True)
    lengths = np.random.default_rng(0).integers(1, 30, 200).tolist()
    lines = [json.dumps({"x": row, "tokens": [row] * length}) for row, length in enumerate(lengths)]
    bad = {3, 50, 51, 120} if is_bad else set()
    (folder / "texts.jsonl").write_text(
        "".join(f"{'{' + line if row in bad else line}\n" for row, line in enumerate(lines))
    )
    return ps.read(folder / "texts.jsonl")


VERBS: dict[str, Make] = {
    "packed": lambda folder, bad: texts(folder, bad).shuffle(seed=1).pack("tokens", length=40, window=10).batch(8, steps=12),
    "padded": lambda folder, bad: texts(folder, bad).shuffle(seed=1).batch_padded(8, length=32, drop_last=True),
    "image beside text": lambda folder, bad: ps.zip([texts(folder / "texts", bad).take(48).map_rows(lambda row: {"x": row["x"]}), images_in_order(folder / "images", bad)]).shuffle(seed=2).batch(8),
    "changed weights": lambda folder, bad: ps.mix([jsonl(folder, bad).shuffle(seed=1), jsonl(folder, bad, rows=60, first=500)], weights=[3, 1], rows=120).batch(SIZE),
    "numbered": lambda folder, bad: ps.mix([jsonl(folder, bad), jsonl(folder, bad, rows=60, first=500)], weights=[3, 1], source="of").batch(SIZE, drop_last=True),
    "built": lambda folder, bad: files(folder, bad).transform(image=[ps.image.Decode(entry_points="build"), ps.image.Resize((8, 8))]).batch(8),
}  # fmt: skip


def images_in_order(folder: Path, is_bad: bool) -> ps.Dataset:
    return files(folder, is_bad).transform(image=[ps.image.Decode(), ps.image.RandomResizedCrop(16)])


@pytest.mark.slow
@pytest.mark.parametrize("on_error", ["skip", "substitute"])
@pytest.mark.parametrize("verb", VERBS)
def test_with_other_verbs(verb: str, on_error: str, tmp_path: Path) -> None:
    plan = VERBS[verb](tmp_path, True)
    whole, _ = run(plan, on_error=on_error)
    _, state = run(plan, 2, steps=3, on_error=on_error)
    found, _ = run(plan, 1, state=state, on_error=on_error)
    assert len(found) >= len(whole) - 3
    for step, (here, wanted) in enumerate(zip(found, whole[3:], strict=False), 3):
        assert_same(here, wanted, f"step {step}")
    if verb == "numbered":
        assert all(((batch["x"] >= 500) == batch["of"]).all() for batch in whole)
    if verb in ("padded", "image beside text"):
        assert not {3, 50, 51, 120} & {row for batch in whole for row in ids_of(batch)}
    if verb == "image beside text":
        names = {int(Path(path).stem) for batch in whole for path in batch["path"].to_pylist()}
        assert not {4, 30, 0, 31} & names
        order = sorted(path.relative_to(tmp_path / "images") for path in (tmp_path / "images").rglob("*.jpg"))
        places = {path.name: number for number, path in enumerate(order)}
        for batch in whole:
            assert [places[Path(path).name] for path in batch["path"].to_pylist()] == ids_of(batch), "pairs stay pairs"


@pytest.mark.parametrize("on_error", ["skip", "substitute"])
def test_weights_may_change(on_error: str, tmp_path: Path) -> None:
    plan = VERBS["changed weights"](tmp_path, True)

    def walk(loader: ps.Loader) -> list[dict[str, Any]]:
        found = []
        for step, batch in enumerate(loader):
            found.append(keep(batch))
            if step == 3:
                loader.set_weights([1, 3])
        return found

    loaders = [ps.Loader(plan, rank=rank, world_size=2, on_error=on_error) for rank in range(2)]
    parts = [walk(loader) for loader in loaders]
    for loader in loaders:
        loader.close()
    with ps.Loader(plan, on_error=on_error) as loader:
        for step, wanted in enumerate(walk(loader)):
            assert_same(join([part[step] for part in parts]), wanted, f"step {step}")
            assert (wanted["x"] >= 500).mean() == (0.25 if step <= 3 else 0.75)
    above = ps.mix([jsonl(tmp_path, True), jsonl(tmp_path, True, first=500)], rows=120).map_rows(numbered).batch(SIZE)
    with ps.Loader(above, on_error="skip") as loader:
        next(iter(loader))
        with pytest.raises(ps.PlanError, match="write it before the mix"):
            loader.set_weights([1, 3])


def test_a_mix_goes_on_with_skip(tmp_path: Path) -> None:
    def mixed(bad: bool) -> ps.Dataset:
        return VERBS["changed weights"](tmp_path / str(bad), bad)

    whole, _ = run(mixed(False), epochs=2)
    _, state = run(mixed(False), steps=13)
    state["data"] = mixed(True).digest
    with pytest.warns(UserWarning, match="continues with 'skip'"):
        found, _ = run(mixed(True), 2, state=state, on_error="skip", epochs=1)
    bad = {first + row for first in (100, 500) for row in (5, 17, 18, 19, 99)}
    seen = {row for batch in found for row in ids_of(batch)}
    assert not seen & bad
    first = [(here, there) for here, there in zip(ids_of(found[0]), ids_of(whole[13]), strict=True) if there not in bad]
    assert all(here == there for here, there in first)
    assert first
