"""What a state says of its plan: a difference is seen and named, and nothing else is taken for one."""

from __future__ import annotations

import functools
import json
import os
import re
import subprocess
import sys
import threading
import warnings
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps
from golden.make_states import plans
from penstock.plan.saved import SavedPlan

GOLDEN = Path(__file__).parent.parent / "golden" / "states"
STATES = json.loads((GOLDEN / "version_1.json").read_text())
BASE = ps.from_arrays({"image": np.zeros((20, 8, 8, 3), dtype=np.uint8), "x": np.arange(20)})
SIZE = 224
calls = 0


def mapped(function: Any) -> ps.Dataset:
    return BASE.shuffle(seed=1).map(function).batch(4)


def state_of(dataset: ps.Dataset) -> dict[str, Any]:
    with ps.Loader(dataset) as loader:
        next(iter(loader))
        return json.loads(json.dumps(loader.state_dict()))


def refusal(was: ps.Dataset, now: ps.Dataset) -> str:
    with pytest.raises(ps.StateError) as caught:
        ps.Loader(now).load_state_dict(state_of(was))
    return str(caught.value)


def same(first: Any, second: Any) -> bool:
    return SavedPlan.of(mapped(first).root).plan == SavedPlan.of(mapped(second).root).plan


# Earlier versions


@pytest.mark.parametrize("name", STATES)
def test_states_of_version_1_load(name: str) -> None:
    plan = plans()[name]
    loader, whole = ps.Loader(plan), ps.Loader(plan)
    loader.load_state_dict(STATES[name])
    whole.set_epoch(1)
    wanted = list(whole)[1:]
    got = list(loader)
    assert len(got) == len(wanted) > 0
    for first, second in zip(got, wanted, strict=True):
        assert all(np.array_equal(first[column], second[column]) for column in first)


def test_states_of_version_1_of_another_plan_are_refused() -> None:
    other = BASE.shuffle(seed=7).map(len).batch(4)
    state = {**STATES["images"], "data": ps.Loader(other).state_dict()["data"], "samples": 20}
    with pytest.raises(
        ps.StateError, match="verb 1, read: it differs, and the state does not say in what; from verb 3 on"
    ):
        ps.Loader(other).load_state_dict(state)


# Functions


def test_another_lambda_is_refused_and_named() -> None:
    message = refusal(mapped(lambda batch: {"x": batch["x"] * 2}), mapped(lambda batch: {"x": batch["x"] * 3}))
    assert "verb 3, map of <lambda>, test_saved.py:" in message
    assert "its code changed" in message
    assert "strict=False" in message


def crop(size: int, name: str = "a") -> Callable[..., dict[str, Any]]:
    return lambda batch: {"x": batch["x"] % size, "name": [name] * 4}


def test_an_enclosed_value_is_named() -> None:
    message = refusal(mapped(crop(224)), mapped(crop(256)))
    assert "verb 3, map of <lambda>, test_saved.py:" in message
    assert "`size` was 224 and is 256" in message
    assert "the value of `name` changed" in refusal(mapped(crop(224)), mapped(crop(224, "b")))


def test_text_is_never_shown() -> None:
    state = json.dumps(state_of(mapped(crop(224, "hf_secret"))))
    assert "hf_secret" not in state
    assert "hf_secret" not in refusal(mapped(crop(224, "hf_secret")), mapped(crop(224, "other")))


def with_helper(batch: dict[str, Any]) -> dict[str, Any]:
    return {"x": helper(batch["x"])}


def helper(column: Any) -> Any:
    return column + SIZE


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [("SIZE", 256, "`helper.SIZE` was 224 and is 256"), ("helper", lambda x: x, "the code of helper|`helper|<lambda>")],
)
def test_what_a_function_uses_of_its_module_counts(
    name: str, value: Any, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = state_of(mapped(with_helper))
    monkeypatch.setattr(sys.modules[__name__], name, value)
    with pytest.raises(ps.StateError, match=message):
        ps.Loader(mapped(with_helper)).load_state_dict(state)


class Scaled:
    def __init__(self, factor: float) -> None:
        self.factor = factor
        self.lock = threading.Lock()

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {"x": self.scale(batch["x"])}

    def scale(self, column: Any) -> Any:
        return column * self.factor


@dataclass(frozen=True)
class Config:
    size: int = 224


def scaled(batch: dict[str, Any], factor: Any, *, shift: Any = 0) -> dict[str, Any]:
    return {"x": batch["x"] + len(str(factor)) + len(str(shift))}


@pytest.mark.parametrize(
    ("make", "was", "now", "message"),
    [
        (Scaled, 1.5, 2.5, "`factor` was 1.5 and is 2.5"),
        (lambda factor: Scaled(factor).scale, 1.5, 2.5, "`factor` was 1.5 and is 2.5"),
        (lambda factor: functools.partial(scaled, factor=factor), 1, 2, "`factor` was 1 and is 2"),
        (lambda shift: functools.partial(scaled, factor=1, shift=shift), (1, 2), (1, 3), r"`shift` was \(1, 2\) and is"),
        (lambda size: lambda batch, size=size: {"x": batch["x"] % size}, 3, 4, "`size` was 3 and is 4"),
        (lambda size: lambda batch: {"x": batch["x"] % size.size}, Config(), Config(256), "value of `size` changed"),
        (lambda size: lambda batch: {"x": batch["x"] % size.a}, Namespace(a=1), Namespace(a=2), "value of `size` changed"),
        (lambda mean: lambda batch: {"x": batch["x"] - mean}, np.arange(3), np.arange(3) + 1, "value of `mean` changed"),
        (lambda mean: lambda batch: {"x": batch["x"] - mean}, np.float32(1), np.float32(2), "`mean` was 1.0 and is 2.0"),
        (lambda table: lambda batch: {"x": table and batch["x"]}, {"a": [1]}, {"a": [2]}, "value of `table` changed"),
        (lambda inner: lambda batch: inner(batch), lambda b: b, lambda b: {**b}, "the code of <lambda> changed"),  # noqa: PLW0108
        (functools.cache, crop(1), crop(2), "`size` was 1 and is 2"),
    ],
)  # fmt: skip
def test_values_of_every_kind_count(make: Any, was: Any, now: Any, message: str) -> None:
    assert same(make(was), make(was))
    with pytest.raises(ps.StateError, match=message):
        ps.Loader(mapped(make(now))).load_state_dict(ps.Loader(mapped(make(was))).state_dict())


def test_large_arrays_count_by_samples() -> None:
    first, other = np.zeros((3 << 20, 4), dtype=np.float32), np.ones((3 << 20, 4), dtype=np.float32)
    copied = first.copy()
    assert same(lambda batch, a=first: (batch, a), lambda batch, a=copied: (batch, a))
    assert not same(lambda batch, a=first: (batch, a), lambda batch, a=other: (batch, a))


def test_what_has_no_plain_value_counts_by_its_type(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")

    def around(thing: Any) -> Any:
        return lambda batch: (batch, thing)

    with (tmp_path / "a").open("w") as first, (tmp_path / "b").open("w") as second:
        assert same(around(first), around(second))
    assert same(around(threading.Lock()), around(threading.Lock()))
    assert same(around(torch.nn.Linear(2, 2)), around(torch.nn.Linear(2, 2))), "weights are drawn anew"
    assert not same(around(torch.nn.Linear(2, 2)), around(torch.nn.Linear(2, 3)))
    assert same(around(torch.rand(3)), around(torch.rand(3)))
    assert not same(around(torch.float32), around(torch.float16))
    assert not same(around(open), around(3))
    assert not same(np.sin, np.cos)
    looped: list[Any] = []
    looped.append(looped)
    assert same(around(looped), around(looped))


def counting(batch: dict[str, Any]) -> dict[str, Any]:
    global calls
    calls += 1
    return {"x": batch["x"] + 0 * calls}


def test_counters_are_no_settings() -> None:
    number = 0

    def count(batch: dict[str, Any]) -> dict[str, Any]:
        nonlocal number
        number += 1
        return {"x": batch["x"] + 0 * number}

    for function in (counting, count):
        ps.Loader(mapped(function)).load_state_dict(state_of(mapped(function)))
    assert number > 0


SCRIPT = '''
{above}
import json, sys
import numpy as np
import penstock as ps
from other_file import shift
NAMES = {{"b", "a", "c", "d"}}
def scale(batch):
    """{doc}"""
    return {{"x": batch["x"] * {factor} + shift(1), "n": [len(NAMES)] * 2}}
if __name__ == "__main__":
    loader = ps.Loader(ps.from_arrays({{"x": np.arange(4)}}).map(scale).batch(2))
    if len(sys.argv) > 1:
        loader.load_state_dict(json.loads(sys.argv[1]))
    print(json.dumps(loader.state_dict()))
'''


def run(folder: Path, *arguments: str, shift: int = 1, hash_seed: int = 0, **text: Any) -> Any:
    (folder / "train.py").write_text(SCRIPT.format(**{"above": "", "doc": "", "factor": 2, **text}))
    (folder / "other_file.py").write_text(f"def shift(x):\n    return x + {shift}\n")
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, "train.py", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_the_same_source_is_the_same_in_every_process(tmp_path: Path) -> None:
    first = run(tmp_path)
    moved = run(tmp_path, hash_seed=5, above="# a comment\n\n", doc="Another docstring.")
    assert json.loads(first.stdout)["plan"] == json.loads(moved.stdout)["plan"]
    assert run(tmp_path, first.stdout, hash_seed=3, above="#\n#\n").returncode == 0
    changed = run(tmp_path, first.stdout, factor=3)
    assert "map of scale, train.py:" in changed.stderr
    assert "its code changed" in changed.stderr
    assert "the code of shift changed" in run(tmp_path, first.stdout, shift=2).stderr


def test_another_python_compiles_to_other_code() -> None:
    state = {**state_of(mapped(crop(2))), "python": "cpython-309"}
    verb, _, values = state["plan"][2].split()
    state["plan"][2] = f"{verb} 00000000 {values}"
    with pytest.warns(UserWarning, match=f"saved with cpython-309, and this is {sys.implementation.cache_tag}"):
        ps.Loader(mapped(crop(2))).load_state_dict(state)
    with pytest.raises(ps.StateError, match="`size` was 2 and is 3"):
        ps.Loader(mapped(crop(3))).load_state_dict(state)


# Ops, columns, verbs


def test_another_op_is_named() -> None:
    def plan(*ops: Any) -> ps.Dataset:
        return BASE.shuffle(seed=1).transform(image=list(ops)).batch(4)

    crop, flip = ps.image.RandomResizedCrop(4), ps.image.RandomHorizontalFlip()
    assert (
        "verb 3, transform: `image, op 2` was RandomResizedCrop(size=(4, 4)) and is RandomResizedCrop(size=(6, 6))"
    ) in refusal(plan(flip, crop), plan(flip, ps.image.RandomResizedCrop(6)))
    assert "`image, op 2` is gone (it was RandomHorizontalFlip())" in refusal(plan(crop, flip), plan(crop))
    assert "`image, op 2` is new (RandomHorizontalFlip())" in refusal(plan(crop), plan(crop, flip))


def test_verbs_that_came_or_went_are_named() -> None:
    base = BASE.shuffle(seed=1)
    message = refusal(base.map(crop(1)).batch(4), base.batch(4))
    assert re.search(r"verb 3, map of <lambda>, test_saved.py:\d+, is gone; use", message)
    assert re.search(
        r"verb 4, map of <lambda>, .*, is new",
        refusal(base.map(crop(1)).batch(4), base.map(crop(1)).map(crop(2)).batch(4)),
    )


def test_not_strict_goes_on_where_the_order_is_the_same() -> None:
    was, now = mapped(crop(7)), mapped(crop(5))
    state = state_of(was)
    loader = ps.Loader(now)
    with pytest.warns(UserWarning, match=r"of the same order: verb 3.*`size` was 7 and is 5; training continues"):
        loader.load_state_dict(state, strict=False)
    assert (loader.epoch, loader.step) == (0, 1)
    wanted = list(ps.Loader(now))[1:]
    assert [batch["x"].tolist() for batch in loader] == [batch["x"].tolist() for batch in wanted]
    without = BASE.shuffle(seed=1).batch(4)
    with pytest.warns(UserWarning, match="verb 3, map of .* is gone"):
        ps.Loader(without).load_state_dict(state, strict=False)
    for other in (BASE.shuffle(seed=2).map(crop(7)).batch(4), BASE.shuffle(seed=1).map(crop(7)).batch(5)):
        with pytest.raises(ps.StateError, match="another order, so use the plan that was trained with"):
            ps.Loader(other).load_state_dict(state, strict=False)
    changed = ps.from_arrays({"image": np.zeros((20, 1)), "x": np.arange(20)}).shuffle(seed=1).map(crop(7)).batch(4)
    with pytest.raises(ps.StateError, match="other data"):
        ps.Loader(changed).load_state_dict(state, strict=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ps.Loader(was).load_state_dict(state, strict=False)


def test_a_state_is_less_than_four_kibibytes() -> None:
    chain = [
        ps.image.RandomResizedCrop(4, scale=(0.1, 0.9), ratio=(0.5, 2.0), interpolation="bicubic", antialias=False)
    ]
    plan = BASE.shuffle(seed=2**64 - 1, mode="global")
    for number in range(16):
        plan = plan.map(crop(number, "a" * 1000)).transform(image=chain)
    loader = ps.Loader(plan.batch(4, pad=True))
    loader.set_epoch(10**9)
    assert len(json.dumps(loader.state_dict())) < 4096
    columns = {f"a column with a long name {number}": np.arange(20) for number in range(400)}
    assert len(json.dumps(ps.Loader(ps.from_arrays(columns).map(crop(3)).batch(4)).state_dict())) < 4096
    state = ps.Loader(plan.map(crop(1)).batch(4)).state_dict()
    with pytest.raises(ps.StateError) as caught:
        ps.Loader(plan.map(crop(2)).batch(4)).load_state_dict(state)
    message = str(caught.value)
    assert "verb 35, map of <lambda>" in message
    assert "`size` was 1 and is 2" in message or "the state does not say in what" in message


def lessened(size: int) -> Callable[..., dict[str, Any]]:
    return lambda batch: {**batch, "x": batch["x"] % size}


def mixed(*, size: int = 8, first: int = 3, second: int = 3, weights: Any = None) -> ps.Dataset:
    """A hundred datasets: so many verbs that a state has no room for details."""
    parts = [BASE.shuffle(seed=seed) for seed in range(100)]
    return (
        ps.mix([parts[0].map(lessened(first)), *parts[1:]], weights=weights, rows=80)
        .map(lessened(second))
        .batch(size, lanes=4)
    )


def test_a_state_of_a_hundred_datasets_is_less_than_four_kibibytes() -> None:
    plan = mixed()
    with ps.Loader(plan) as loader:
        loader.set_epoch(10**9)
        state = json.loads(json.dumps(loader.state_dict()))
    assert len(json.dumps(state)) < 4096
    with ps.Loader(plan) as loader:
        loader.load_state_dict(state)
        assert loader.epoch == 10**9


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (lambda: mixed(size=16), "verb 204, batch|verb 204 was"),
        (lambda: mixed(first=4), "the state does not say in what.*same order"),
        (lambda: mixed(second=4), "`size` was 3 and is 4|the state does not say in what"),
        (lambda: mixed(weights=[2] + [1] * 99), "another order"),
        (lambda: BASE.shuffle(seed=1).batch(4), "another order"),
    ],
)
def test_a_long_plan_that_differs(other: Callable[[], ps.Dataset], message: str) -> None:
    with ps.Loader(other()) as loader:
        state = {**state_of(mixed()), "data": loader.dataset.digest}
        with pytest.raises(ps.StateError, match=message) as caught:
            loader.load_state_dict(state)
        assert len(str(caught.value)) < 2000
        if "same order" in str(caught.value):
            with pytest.warns(UserWarning, match="of the same order"):
                loader.load_state_dict(state, strict=False)


def test_a_folded_state_loads() -> None:
    """For a while, states held the first verbs of a long plan as one text."""
    state = json.loads((GOLDEN / "folded.json").read_text())
    parts = [BASE.shuffle(seed=seed) for seed in range(100)]
    plan = ps.mix(parts, rows=80).batch(8, lanes=4)
    with ps.Loader(plan) as loader:
        loader.load_state_dict(state)
        assert (loader.epoch, loader.step) == (0, 1)
    with ps.Loader(ps.mix(parts[:-1], rows=80).batch(8, lanes=4)) as loader:
        with pytest.raises(ps.StateError, match="another order"):
            loader.load_state_dict({**state, "data": loader.dataset.digest, "samples": 1980})
        with pytest.raises(ps.StateError):
            loader.load_state_dict({**state, "plan": ["folded", *state["plan"][1:]]})
