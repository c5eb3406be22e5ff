"""What a batch comes as: a dict that shows itself and is not unpacked by mistake, tuples, named tuples, users' classes."""

from __future__ import annotations

import copy
import io
import json
import pickle
import sys
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from penstock.deliver.batch_dict import BatchDict

DATA = ps.from_arrays({"image": np.arange(48, dtype=np.uint8).reshape(8, 2, 3), "label": np.arange(8)})
PLAN = DATA.shuffle(seed=1).batch(4)


@pytest.fixture
def batch() -> Any:
    return next(iter(ps.Loader(PLAN)))


# The dict


def for_two(batch: Any) -> None:
    for _image, _label in [batch]:
        pass


def for_enumerated(batch: Any) -> None:
    for _number, (_image, _label) in enumerate([batch]):
        pass


def assigned(batch: Any) -> None:
    _image, _label = batch


def starred(batch: Any) -> None:
    _image, *_rest = batch


def in_brackets(batch: Any) -> None:
    [_image, _label] = batch


def in_a_comprehension(batch: Any) -> None:
    assert [image for image, label in [batch]]


def in_a_generator(batch: Any) -> None:
    assert list(image for image, label in iter([batch]))  # noqa: C400


UNPACKINGS = [for_two, for_enumerated, assigned, starred, in_brackets, in_a_comprehension, in_a_generator]


@pytest.mark.parametrize("unpack", UNPACKINGS)
def test_unpacking_a_batch_says_what_to_write(unpack: Any, batch: Any) -> None:
    for _ in range(100):  # the interpreter puts quicker instructions into code that runs often
        unpack((1, 2))
        with pytest.raises(ps.PlanError, match=r"'image', 'label'.*write batch\['image'\].*structure='tuple'"):
            unpack(batch)


def test_unpacking_is_seen_under_a_tracer(batch: Any) -> None:
    before = sys.gettrace()
    sys.settrace(lambda *_: None)
    try:
        with pytest.raises(ps.PlanError, match="structure='tuple'"):
            assigned(batch)
    finally:
        sys.settrace(before)


def test_a_loop_over_the_loader_is_caught() -> None:
    with pytest.raises(ps.PlanError, match="structure='tuple'"):
        for _image, _label in ps.Loader(PLAN):
            pass


def keywords(**columns: Any) -> dict[str, Any]:
    return columns


def test_all_else_that_takes_a_dict_apart_works(batch: Any) -> None:
    names = ["image", "label"]
    assert isinstance(batch, dict)
    assert [name for name in batch] == names  # noqa: C416
    assert [*batch] == list(batch) == sorted(batch) == [*batch.keys()] == names
    first, second = batch.values()
    assert (first is batch["image"], second is batch["label"]) == (True, True)
    first, second = list(batch)
    assert (first, second) == ("image", "label")
    (one, _), (two, _) = batch.items()
    assert [one, two] == names
    for same in (dict(batch), {**batch}, keywords(**batch), batch | {}, {} | batch, batch.copy()):
        assert same.keys() == batch.keys()
        assert all(same[name] is batch[name] for name in names)
    assert type(dict(batch)) is type({**batch}) is dict
    assert "".join(batch) == "imagelabel"
    assert json.dumps(BatchDict(a=1, b=[2])) == '{"a": 1, "b": [2]}'
    match batch:
        case {"image": image, "label": _}:
            assert image is batch["image"]
        case _:
            pytest.fail("a batch is a mapping")


def test_copied_and_pickled(batch: Any) -> None:
    for made in (copy.copy(batch), copy.deepcopy(batch)):
        assert type(made) is BatchDict
        assert np.array_equal(made["image"], batch["image"])
    assert copy.copy(batch)["image"] is batch["image"]
    assert copy.deepcopy(batch)["image"] is not batch["image"]
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        made = pickle.loads(pickle.dumps(batch, protocol))
        assert type(made) is OrderedDict
        assert np.array_equal(made["label"], batch["label"])


def test_shown_by_dtypes_and_shapes(batch: Any) -> None:
    assert repr(batch) == "{'image': uint8 (4, 2, 3), 'label': int64 (4,)}"
    batch |= {"text": pa.array(["a", "b"]), "own": object(), "long": np.zeros((3, 4, 5, 6), dtype=np.float32)}
    assert repr(batch) == (
        "{\n    'image': uint8 (4, 2, 3),\n    'label': int64 (4,),\n    'text': string (2 rows),\n"
        "    'own': object,\n    'long': float32 (3, 4, 5, 6),\n}"
    )


# Torch's utilities, and those of trainers


@pytest.fixture
def tensors() -> Any:
    pytest.importorskip("torch")
    return next(iter(ps.Loader(PLAN, to="torch")))


def check_moved(made: Any, tensors: Any) -> None:
    assert type(made) is BatchDict
    assert made is not tensors
    assert list(made) == list(tensors)


def test_torch_trees(tensors: Any) -> None:
    import torch
    from torch.utils import _pytree as trees

    made = trees.tree_map(lambda column: column + 1, tensors)
    check_moved(made, tensors)
    assert torch.equal(made["label"], tensors["label"] + 1)
    paths = [trees.keystr(path) for path, _ in trees.tree_flatten_with_path(tensors)[0]]
    assert paths == ["['image']", "['label']"]
    assert torch.vmap(lambda row: row["label"] * 2)(tensors).tolist() == (tensors["label"] * 2).tolist()
    assert repr(tensors) == "{'image': uint8 (4, 2, 3), 'label': int64 (4,)}"


@pytest.mark.slow
def test_torch_collates_saves_and_compiles(tensors: Any) -> None:
    import torch
    from torch.utils.data import default_collate, default_convert

    assert default_collate([tensors, tensors])["label"].shape == (2, 4)
    assert torch.equal(default_convert(tensors)["label"], tensors["label"])
    file = io.BytesIO()
    torch.save(tensors, file)
    file.seek(0)
    assert torch.equal(torch.load(file, weights_only=True)["label"], tensors["label"])
    whole = torch.compile(lambda batch: batch["label"] + len(batch), backend="eager", fullgraph=True)
    assert torch.equal(whole(tensors), tensors["label"] + 2)


def test_torch_pins(tensors: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch
    from torch.utils.data._utils.pin_memory import pin_memory

    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor, *_: tensor + 1)
    made = pin_memory(tensors)
    check_moved(made, tensors)
    assert torch.equal(made["label"], tensors["label"] + 1)


@pytest.mark.slow
def test_lightning_moves(tensors: Any) -> None:
    fabric = pytest.importorskip("lightning_fabric.utilities.apply_func")
    apply = pytest.importorskip("lightning_utilities.core.apply_func")
    import torch

    check_moved(fabric.move_data_to_device(tensors, "cpu"), tensors)
    made = apply.apply_to_collection(tensors, torch.Tensor, lambda tensor: tensor + 1)
    check_moved(made, tensors)
    assert torch.equal(made["label"], tensors["label"] + 1)


def test_accelerate_moves(tensors: Any) -> None:
    operations = pytest.importorskip("accelerate.utils.operations")
    import torch

    check_moved(operations.send_to_device(tensors, "cpu"), tensors)
    made = operations.recursively_apply(lambda tensor: tensor + 1, tensors)
    check_moved(made, tensors)
    assert torch.equal(made["label"], tensors["label"] + 1)
    assert operations.find_batch_size(tensors) == 4
    assert operations.concatenate([tensors, tensors])["label"].shape == (8,)
    assert operations.slice_tensors(tensors, slice(0, 1))["label"].shape == (1,)


@pytest.mark.slow
def test_jax_takes_a_batch_for_a_tree(batch: Any) -> None:
    jax = pytest.importorskip("jax")
    batch = next(iter(ps.Loader(PLAN)))
    assert int(jax.jit(lambda tree: tree["label"].sum())(batch)) == batch["label"].sum()
    check_moved(jax.tree.map(lambda column: column + 1, batch), batch)


# Other structures


@dataclass
class Sample:
    label: Any
    image: Any


class Pair(NamedTuple):
    label: Any
    image: Any


@pytest.mark.parametrize("to", ["numpy", "torch"])
@pytest.mark.parametrize("rows", [4, 1])
def test_every_structure_holds_the_same(to: Any, rows: int) -> None:
    if to == "torch":
        pytest.importorskip("torch")
    plan = DATA.shuffle(seed=1).batch(rows)
    wanted = [(batch["image"].tolist(), batch["label"].tolist()) for batch in ps.Loader(plan, to=to)]
    for image, label in ps.Loader(plan, to=to, structure="tuple"):
        assert (image.tolist(), label.tolist()) == wanted.pop(0)
    wanted = ps.Loader(plan, to=to).batch_at(0, 1)
    for structure in ("namedtuple", Sample, Pair):
        loader = ps.Loader(plan, to=to, structure=structure)
        batches = list(loader)
        for batch in (batches[1], loader.batch_at(0, 1)):
            assert type(batch) is type(batches[0])
            assert batch.image.tolist() == wanted["image"].tolist()
            assert batch.label.tolist() == wanted["label"].tolist()
    assert type(ps.Loader(plan, to=to, structure=tuple).batch_at(0, 0)) is tuple
    assert type(ps.Loader(plan, to=to, structure=dict).batch_at(0, 0)) is BatchDict


def test_named_tuples_are_pickled_and_of_one_class() -> None:
    first, second = (next(iter(ps.Loader(PLAN, structure="namedtuple"))) for _ in range(2))
    assert type(first) is type(second)
    made = pickle.loads(pickle.dumps(first))
    assert type(made) is type(first)
    assert np.array_equal(made.image, first.image)


def test_padding_is_a_column() -> None:
    @dataclass
    class Padded:
        image: Any
        label: Any
        valid: Any

    plan = DATA.batch(5, pad=True)
    _, _, valid = list(ps.Loader(plan, structure="tuple"))[-1]
    assert sorted(valid.tolist()) == [False, False, True, True, True]
    assert list(ps.Loader(plan, structure="namedtuple"))[-1].valid.tolist() == valid.tolist()
    assert list(ps.Loader(plan, structure=Padded))[-1].valid.tolist() == valid.tolist()
    with pytest.raises(ps.PlanError, match="the columns are 'image', 'label', 'valid'"):
        ps.Loader(plan, structure=Sample)


@dataclass
class Misspelt:
    image: Any
    labels: Any


@dataclass
class Lacking:
    image: Any


@pytest.mark.parametrize(
    ("structure", "message"),
    [
        ("tupel", "structure='tupel'; choose 'dict', 'tuple', 'namedtuple', 'tensordict', 'arrow', 'pandas', 'polars', or pass a dataclass; did you mean 'tuple'?"),
        ("Dict", "did you mean 'dict'?"),
        (list, "structure=list; choose"),
        (None, "structure=None; choose"),
        (3, "structure=3; choose"),
        (Sample(1, 2), "choose 'dict', 'tuple', 'namedtuple', 'tensordict', 'arrow', 'pandas', 'polars', or pass a dataclass"),
        (Misspelt, "structure=Misspelt: its fields are 'image', 'labels', but the columns are 'image', 'label'; make them equal: did you mean 'label' for 'labels'?"),
        (Lacking, "its fields are 'image', but the columns are 'image', 'label'; make them equal"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_said_at_once(structure: Any, message: str) -> None:
    with pytest.raises(ps.PlanError) as caught:
        ps.Loader(PLAN, structure=structure)
    assert message in str(caught.value)


def test_names_that_are_no_fields() -> None:
    plan = ps.from_arrays(
        {"image/encoded": np.arange(4), "class": np.arange(4), "_x": np.arange(4), "ok": np.arange(4)}
    )
    with pytest.raises(ps.PlanError) as caught:
        ps.Loader(plan.batch(2), structure="namedtuple")
    assert "'image/encoded', 'class', '_x' cannot be the name of a field" in str(caught.value)
    assert "columns={'image_encoded': 'image/encoded', 'class_': 'class', 'x': '_x'}" in str(caught.value)


def test_after_a_map_the_first_batch_tells() -> None:
    def renamed(batch: dict[str, Any]) -> dict[str, Any]:
        return {"picture/x": batch["image"], "label": batch["label"]}

    plan = DATA.map(renamed).batch(4)
    assert [len(batch) for batch in ps.Loader(plan, structure="tuple")] == [2, 2]
    for structure in ("namedtuple", Sample):
        loader = ps.Loader(plan, structure=structure)
        with pytest.raises(ps.PlanError, match="picture/x"):
            next(iter(loader))
        with pytest.raises(ps.PlanError, match="picture/x"):
            loader.batch_at(0, 0)


def test_columns_that_change_places_are_no_tuple() -> None:
    def turned(batch: dict[str, Any]) -> dict[str, Any]:
        names = ["image", "label"] if 0 in batch["label"] else ["label", "image"]
        return {name: batch[name] for name in names}

    def taken() -> Iterator[Any]:
        yield from ps.Loader(DATA.map(turned).batch(4), structure="tuple")

    with pytest.raises(
        ps.PlanError, match="this batch has the columns 'label', 'image', earlier ones had 'image', 'label'"
    ):
        list(taken())
