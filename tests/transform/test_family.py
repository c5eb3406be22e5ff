"""What the protocol of families carries, each by a real use: ragged results, several columns of one, ops on batches; and what comes later, by toys."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

import penstock as ps
from penstock.core.columns.spec import Columns, Field, Spec
from penstock.core.draw_keys import DrawKeys
from penstock.transform import family
from penstock.transform.family import Chains, Family, Fitted, Kernel, Op, Site, Workspace, groups_of, path_number
from support import plans, promises
from support.images import encoded, picture, spans
from support.plans import passes

I = ps.image  # noqa: E741  # as users write it
ROWS = 30
TEXTS = ["héllo", "", "a" * 30, "日本", *(f"row {row}" * (row % 4) for row in range(ROWS - 4))]
VIEW = [I.RandomResizedCrop(10), I.RandomHorizontalFlip(), I.RandomInvert()]
CUT_MIX = I.CutMix(num_classes=10, among=2, per_row=True)
EITHER = I.RandomChoice(
    [I.MixUp(0.4, num_classes=10, among=2, per_row=True), I.CutMix(num_classes=10, among=2)], p=[1, 2]
)
DATA = {
    "image": [encoded(picture(20 + row, 30 - row, row), "JPEG") for row in range(ROWS)],
    "label": np.arange(ROWS) % 10,
    "text": TEXTS,
}


def data() -> ps.Dataset:
    return ps.from_arrays(DATA).shuffle(seed=3)


def views() -> ps.Dataset:
    return data().transform(image=[I.Decode(), *VIEW], view=I.From("image", [*VIEW, I.Normalize(0.5, 0.5)]))


def mixed(**chosen: Any) -> ps.Dataset:
    pixels = data().transform(image=[I.Decode(), I.RandomResizedCrop(10), I.ToDtype("float32")])
    return pixels.select(["image", "label"]).batch(8, **chosen).transform(I.MixUp(0.4, num_classes=10, among=2))


PLANS: dict[str, Callable[[], ps.Dataset]] = {
    "text": lambda: data().transform(text=ps.text.Bytes()).select(["text", "label"]).batch(12),
    "text padded": lambda: data().transform(text=ps.text.Bytes()).select(["text"]).batch_padded(12, length=32),
    "text packed": lambda: data().transform(text=ps.text.Bytes()).pack("text", length=64).batch(4, lanes=4, steps=5),
    "views": lambda: views().batch(12),
    "views, cached": lambda: views().cache(freeze_random=True).batch(12),
    "text, cached": lambda: data().transform(text=ps.text.Bytes()).cache().select(["text"]).batch(12),
    "mixed up": mixed,
    "mixed up, whole steps": lambda: mixed(wrap=True),
    "mixed up, cached": lambda: data().transform(image=[I.Decode(), I.CenterCrop(10)]).cache().batch(16).transform(I.MixUp(num_classes=10, among=4)),
    "cut and mixed": lambda: data().transform(image=[I.Decode(), I.CenterCrop(10)]).select(["image", "label"]).batch(8).transform(CUT_MIX),
    "one of a step": lambda: data().transform(image=[I.Decode(), I.CenterCrop(10), I.ToLayout("NHWC")]).batch(8).transform(EITHER),
    "all": lambda: views().transform(text=ps.text.Bytes()).batch(16).transform(I.MixUp(num_classes=10, columns=["view"], among=4)),
}  # fmt: skip


def allocate(_: str, field: Field, rows: int) -> Any:
    return np.empty((rows, *field.shape), field.dtype)


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_ranks_make_one_batch(plan: Callable[[], ps.Dataset]) -> None:
    plans.ranks_make_one_batch(plan)


def test_three_ranks_mix_up_in_threes() -> None:
    plan = data().transform(image=[I.Decode(), I.CenterCrop(10)]).batch(9).transform(I.MixUp(num_classes=10))
    plans.ranks_make_one_batch(lambda: plan, 3, epochs=1)


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_it_resumes_and_any_step_can_be_made(plan: Callable[[], ps.Dataset]) -> None:
    plans.resumes(plan, at_any_step="pack" not in str(plan()))


@pytest.mark.slow
@pytest.mark.parametrize(
    "plan", [PLANS["all"], PLANS["one of a step"], PLANS["text packed"]], ids=["all", "one of a step", "text packed"]
)
def test_processes_make_the_same(plan: Callable[[], ps.Dataset]) -> None:
    plans.is_the_same_with(plan, isolation="process")


def upper(batch: dict[str, Any]) -> dict[str, Any]:
    return {**batch, "label": np.asarray(batch["label"]) + 1}


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["thread", "process"])
def test_they_go_with_functions(workers: Any) -> None:
    """Behind a function nothing is known of columns before the first batch."""
    plan = ps.from_arrays(DATA).map(upper, workers=workers)
    plan = plan.transform(
        image=[I.Decode("RGB"), I.CenterCrop(10)], view=I.From("image", [I.Resize((4, 4))]), text=ps.text.Bytes()
    )
    (batch, *_) = passes(plan.batch(13).transform(I.MixUp(num_classes=11)), 1)
    assert batch["view"].shape == (13, 3, 4, 4)
    assert batch["text"].to_pylist() == [list(text.encode()) for text in TEXTS[:13]]
    assert batch["label"].shape == (13, 11)


def test_explain_names_them() -> None:
    told = PLANS["all"]().explain()
    assert "view=[From(column='image'" in told
    assert "text=[Bytes()]" in told
    assert "transform MixUp(alpha=1.0, num_classes=10" in told


# Text


def test_texts_become_bytes_and_go_on_ragged() -> None:
    rows = ps.from_arrays({"text": TEXTS}).transform(text=ps.text.Bytes())
    (batch,) = passes(rows.batch(ROWS), 1)
    assert batch["text"].type == pa.large_list(pa.uint8())
    assert batch["text"].to_pylist() == [list(text.encode()) for text in TEXTS]
    (padded,) = passes(rows.batch_padded(ROWS), 1)
    assert padded["text"].dtype == np.uint8
    assert padded["text"].shape == (ROWS, 30)
    packed = passes(rows.pack("text", length=64).batch(1, steps=3), 1)
    assert [batch["text"].shape for batch in packed] == [(1, 64)] * 3


def test_nulls_stay_nulls_and_nothing_pads_them(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"text": ["a", None, "bc"]}), tmp_path / "rows.parquet")
    rows = ps.read(tmp_path / "rows.parquet", nulls="arrow").transform(text=ps.text.Bytes())
    (batch,) = passes(rows.batch(3), 1)
    assert batch["text"].to_pylist() == [[97], None, [98, 99]]
    with pytest.raises(ps.DataError, match="holds a null"):
        passes(rows.batch_padded(3), 1)


def test_bytes_of_what_is_no_text() -> None:
    with pytest.raises(ps.PlanError, match=r"Bytes\(\) on column 'label', which is int64; give it text or bytes"):
        ps.from_arrays(DATA).transform(label=ps.text.Bytes())
    with pytest.raises(
        ps.PlanError, match=r"not an op; use those of penstock\.image, penstock\.text or penstock\.table"
    ):
        passes(ps.from_arrays(DATA).transform(text=[len]).batch(2), 1)


# Views


def test_a_view_decodes_nothing_anew_and_changes_nothing_of_the_first() -> None:
    alone = data().transform(image=[I.Decode(), *VIEW]).batch(12)
    for found, wanted in zip(passes(views().batch(12)), passes(alone), strict=True):
        promises.assert_same({"image": found["image"]}, {"image": wanted["image"]})
    chains: dict[str, Any] = {"image": (I.Decode(), *VIEW), "view": (I.From("image", VIEW),)}
    kernel = family.family_of(chains["image"]).compile(chains, Site(fields={"image": Field("bytes")}))
    keys = {name: DrawKeys(np.arange(ROWS), number) for number, name in enumerate(chains)}
    made = kernel({"image": spans(*DATA["image"])}, keys, Workspace(allocate=allocate))
    assert not np.array_equal(made["image"], made["view"])
    assert kernel.counts() == {"jpeg": ROWS}


def test_views_draw_for_themselves() -> None:
    first, *_ = passes(data().transform(view=I.From("image", VIEW), image=[I.Decode(), *VIEW]).batch(12), 1)
    assert not np.array_equal(first["image"], first["view"])
    last, *_ = passes(data().transform(image=[I.Decode(), *VIEW], view=I.From("image", VIEW)).batch(12), 1)
    promises.assert_same(first, {name: last[name] for name in first}, "where a view is written changes nothing")


def test_views_that_draw_nothing_are_exact() -> None:
    for kind, options in (("JPEG", {}), ("PNG", {}), ("JPEG", {"exif": _turned()})):
        some = {"image": [encoded(picture(33, 21, row), kind, **options) for row in range(4)]}
        ops = [I.Resize((12, 12)), I.ToDtype("float32")]
        decode = I.Decode(apply_exif=True)
        plan = ps.from_arrays(some).transform(
            image=[decode, *ops], view=I.From("image", ops), whole=I.From("image", [])
        )
        (batch,) = passes(plan.batch(4), 1)
        (alone,) = passes(ps.from_arrays(some).transform(image=[decode, *ops]).batch(4), 1)
        assert np.array_equal(batch["view"], alone["image"])
        assert np.array_equal(batch["image"], alone["image"])
        (whole,) = passes(ps.from_arrays(some).transform(image=[decode]).batch(4), 1)
        assert np.array_equal(batch["whole"], whole["image"])


def _turned() -> Image.Exif:
    found = Image.Exif()
    found[0x0112] = 6
    return found


def test_a_view_can_be_all_that_is_asked_for() -> None:
    (batch, *_) = passes(views().select(["view"]).batch(12), 1)
    wanted, *_ = passes(views().batch(12), 1)
    promises.assert_same(batch, {"view": wanted["view"]})


def test_views_of_pixels_and_beside_masks() -> None:
    pixels = ps.from_arrays({"image": np.random.default_rng(1).integers(0, 256, (8, 9, 9, 3), np.uint8)})
    (batch,) = passes(pixels.transform(image=[I.CenterCrop(5)], view=I.From("image", [I.CenterCrop(3)])).batch(8), 1)
    assert np.array_equal(batch["view"], batch["image"][:, :, 1:-1, 1:-1])
    some = {"image": DATA["image"], "mask": DATA["image"]}
    chains: dict[str, Any] = {
        "image": [I.Decode(), *VIEW[:2]],
        "mask": [I.Decode(), *VIEW[:2]],
        "view": I.From("image", VIEW),
    }
    (batch,) = passes(ps.from_arrays(some).transform(**chains, draws="together").batch(ROWS), 1)
    assert np.array_equal(batch["image"], batch["mask"])
    assert not np.array_equal(batch["image"], batch["view"])


@pytest.mark.parametrize("on_error", ["skip", "substitute"])
def test_bad_images_of_views_are_left_out(on_error: Any) -> None:
    some = {"image": [b"no image" if row in (3, 17) else one for row, one in enumerate(DATA["image"])]}
    plan = ps.from_arrays(some).transform(image=[I.Decode(), *VIEW], view=I.From("image", VIEW))
    with pytest.warns(UserWarning, match="not an image"):
        batches = passes(plan.batch(2), 1, on_error=on_error)
    left = ROWS - 2 if on_error == "skip" else ROWS
    assert [len(batch["view"]) for batch in batches] == [2] * (left // 2)
    assert all(len(batch["view"]) == len(batch["image"]) for batch in batches)


@pytest.mark.parametrize(
    ("chains", "message"),
    [
        ({"view": I.From("image", VIEW)}, "which has no chain of its own beside it"),
        ({"image": [I.Decode(fast=True), I.Resize((9, 9))], "view": I.From("image", VIEW)}, "leave out fast=True"),
        ({"image": [I.Decode()], "view": I.From("photo", VIEW)}, "which has no chain of its own beside it"),
    ],
)
def test_views_that_cannot_be(chains: dict[str, Any], message: str) -> None:
    with pytest.raises(ps.PlanError, match=message):
        ps.from_arrays(DATA).transform(**chains)


def test_a_view_begins_with_pixels() -> None:
    with pytest.raises(ps.PlanError, match="image ops without Decode"):
        I.From("image", [I.Decode(), I.Resize(9)])


# Ops on batches


@pytest.mark.slow
def test_mix_up_is_torchvisions() -> None:
    """With its λ and our partners, bit for bit."""
    torch = pytest.importorskip("torch")
    v2 = pytest.importorskip("torchvision.transforms.v2")
    images = np.random.default_rng(0).random((4, 3, 6, 5), dtype=np.float32)
    labels = np.array([3, 1, 3, 0])
    made, drawn = _mixed({"image": images, "label": labels}, I.MixUp(0.4, num_classes=5), together=2)
    assert drawn["shift"] == 1
    of = v2.MixUp(alpha=0.4, num_classes=5)
    for pair in (slice(0, 2), slice(2, 4)):  # torchvision's partner is the row before, of two the other one
        params = {"labels": torch.from_numpy(labels[pair]), "batch_size": 2, "lam": drawn["lam"]}
        assert np.array_equal(of.transform(torch.from_numpy(images[pair]), params).numpy(), made["image"][pair])
        assert np.array_equal(of.transform(params["labels"], params).numpy(), made["label"][pair])


def _mixed(columns: dict[str, Any], op: Any, together: int, step: int = 1) -> tuple[Columns, dict[str, Any]]:
    fields = {name: Field(column.dtype.name, column.shape[1:]) for name, column in columns.items()}
    kernel = family.family_of((op,)).compile({"": (op,)}, Site(fields=fields))
    keys = {"": DrawKeys(np.arange(len(columns["label"])), 7, step)}
    work = Workspace(allocate=allocate, together=together)
    return kernel(columns, keys, work), kernel.drawn(columns, keys, work)[""]["MixUp"]


def test_mix_up_rounds_bytes_and_says_what_it_drew() -> None:
    images = np.random.default_rng(0).integers(0, 256, (12, 3, 4, 4), np.uint8)
    columns = {"image": images, "label": np.arange(12)}
    shifts = set()
    for step in range(20):
        made, drawn = _mixed(columns, I.MixUp(0.4, num_classes=12), together=4, step=step)
        lam, shift = drawn["lam"], drawn["shift"]
        shifts.add(shift)
        partner = np.arange(12) // 4 * 4 + (np.arange(12) + shift) % 4
        exact = lam * images.astype(np.float64) + (1 - lam) * images[partner]
        assert made["image"].dtype == np.uint8
        assert np.abs(made["image"] - exact).max() <= 0.5001
        assert np.allclose(made["label"], lam * np.eye(12) + (1 - lam) * np.eye(12)[partner])
    assert shifts == {1, 2, 3}


def test_the_last_short_batch_has_its_labels_alone() -> None:
    *full, last = passes(mixed(), 1)
    plain = data().transform(image=[I.Decode(), I.RandomResizedCrop(10), I.ToDtype("float32")]).batch(8)
    *_, wanted = passes(plain, 1)
    assert len(last["label"]) == ROWS % 8
    assert np.array_equal(last["image"], wanted["image"])
    assert np.array_equal(last["label"], np.eye(10, dtype=np.float32)[wanted["label"]])
    assert any(((batch["label"] > 0) & (batch["label"] < 1)).any() for batch in full)
    assert all(np.allclose(batch["label"].sum(axis=1), 1) for batch in full)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda data: data.transform(I.MixUp(num_classes=10)), "there is no batch yet"),
        (lambda data: data.transform(image=[I.MixUp(num_classes=10)]).batch(2), "works on whole batches"),
        (lambda data: data.select(["image"]).batch(2).transform(I.MixUp(num_classes=10)), "no column 'label'; name a column of class numbers"),
        (lambda data: data.batch(2).transform(I.MixUp(num_classes=10, labels="text")), "column 'text' is string"),
        (lambda data: data.batch(2).transform(I.MixUp(num_classes=10)), "no column of images"),
        (lambda data: data.batch(2).transform(I.Resize(3)), "ops of columns are named"),
    ],
)  # fmt: skip
def test_what_cannot_be_mixed(make: Callable[[ps.Dataset], ps.Dataset], message: str) -> None:
    with pytest.raises(ps.PlanError, match=message):
        ps.Loader(make(ps.from_arrays(DATA)))


def test_ranks_with_too_few_rows_and_labels_that_are_too_large_are_named() -> None:
    with pytest.raises(ps.PlanError, match=r"takes 8 neighbouring rows of a batch together.*each rank has 4 rows"):
        ps.Loader(views().batch(8).transform(I.MixUp(num_classes=10)), rank=0, world_size=2)
    plan = data().transform(image=[I.Decode(), I.CenterCrop(9)]).batch(8).transform(I.MixUp(num_classes=9))
    with pytest.raises(ps.DataError, match="label 9 in column 'label', of num_classes=9"):
        passes(plan, 1)


def test_masks_of_classes_are_never_blended() -> None:
    masks = [encoded(picture(9, 9, row).quantize(4), "PNG") for row in range(8)]
    plan = ps.from_arrays({"image": DATA["image"][:8], "mask": masks, "label": np.arange(8)})
    plan = plan.transform(image=[I.Decode(), I.CenterCrop(9)], mask=[I.Decode("P")])
    (batch,) = passes(plan.batch(8).transform(I.MixUp(num_classes=10)), 1)
    (alone,) = passes(plan.batch(8), 1)
    assert np.array_equal(batch["mask"], alone["mask"])
    with pytest.raises(ps.PlanError, match="column 'mask' is indices, which cannot be blended"):
        ps.Loader(plan.batch(8).transform(I.MixUp(num_classes=10, columns=["mask"])))


# What the protocol carries for families that are not there yet


@dataclass(frozen=True)
class Scaled(Op):
    """A column by what was fitted, plus noise of a partner column."""

    family = "toy"
    fitted: Fitted
    of: str

    def needs(self, name: str) -> tuple[str, ...]:
        return (name, self.of)

    def output(self, name: str, given: Spec) -> Spec:
        return {**given, name: Field("float32", (None,))}


class ToyKernel(Kernel):
    def __init__(self, name: str, op: Scaled) -> None:
        self.op, self.columns = op, (name, op.of)
        self.fields = {name: Field("float32", (None,))}

    def __call__(self, columns: Columns, keys: Mapping[str, DrawKeys], work: Workspace) -> Columns:
        name, of = self.columns
        mine, noise = np.asarray(columns[name]), np.asarray(columns[of])
        rows = [[float(a * self.op.fitted.value["scale"] + b)] * (int(b) % 3) for a, b in zip(mine, noise, strict=True)]
        return {name: pa.array(rows, pa.large_list(pa.float32()))}


class ToyFamily(Family):
    def compile(self, chains: Chains, site: Site) -> Kernel:
        ((name, ops),) = chains.items()
        return ToyKernel(name, ops[0])


def test_a_toy_family_with_fitted_state_a_partner_column_and_ragged_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(family.FAMILIES, "toy", __name__)
    monkeypatch.setattr(f"{__name__}.FAMILY", ToyFamily(), raising=False)
    rows = ps.from_arrays({"x": np.arange(6.0), "noise": np.arange(6) % 4})
    plans = [
        rows.transform(x=Scaled(Fitted.of({"scale": scale}, "1a2b"), "noise")).batch_padded(6) for scale in (2.0, 3.0)
    ]
    (batch,) = passes(plans[0], 1)
    assert batch["x"].tolist() == [[0, 0], [3, 0], [6, 6], [0, 0], [0, 0], [11, 0]]
    with ps.Loader(plans[0]) as loader, ps.Loader(plans[1]) as other, pytest.raises(ps.StateError):
        other.load_state_dict(loader.state_dict())  # another fit is another plan
    with pytest.raises(ps.PlanError, match="no column 'loud'"):
        rows.transform(x=Scaled(Fitted.of({}, ""), "loud"))
    with pytest.raises(ps.PlanError, match="no plain JSON value"):
        Fitted.of({"scale": object()}, "")


def test_paths_number_ops_so_that_one_more_changes_none() -> None:
    assert [path_number(place) for place in range(3)] == [0, 1, 2]
    paths = [(place, *inner) for place in range(3) for inner in ((), (0,), (1,), (0, 0), (0, 1))]
    assert len({path_number(*path) for path in paths}) == len(paths)
    assert all(path_number(*path) >= 1 << 63 for path in paths if len(path) > 1)


def test_chains_that_share_a_column_are_one_kernel() -> None:
    chains: dict[str, Any] = {"v": (I.From("image", []),), "mask": (I.Decode(),), "image": (I.Decode(),)}
    assert [sorted(group) for group in groups_of(chains)] == [["image", "v"], ["mask"]]
