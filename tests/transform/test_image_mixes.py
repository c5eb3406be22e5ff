"""CutMix, MixUp by row, and one of them a step: torchvision v2's images and labels for the same draws, and its distributions. `test_family` has them on ranks, resumed and in processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import penstock as ps
from penstock.core.columns.spec import Columns, Field
from penstock.core.draw_keys import DrawKeys
from penstock.transform.family import Kernel, Site, Workspace, family_of

I = ps.image  # noqa: E741  # as users write it
ROWS, CLASSES = 12, 7
EDGES = ("left", "top", "right", "bottom")
EITHER = I.RandomChoice([I.MixUp(0.4, num_classes=CLASSES), I.CutMix(num_classes=CLASSES)], p=[1, 3])


def batch_of(dtype: str = "float32", size: tuple[int, int] = (20, 30), *, first: bool = True) -> Columns:
    shape = (ROWS, 3, *size) if first else (ROWS, *size, 3)
    images = np.random.default_rng(0).integers(0, 256, shape).astype(dtype)
    return {"image": images, "label": np.arange(ROWS) * 5 % CLASSES}


def kernel_of(columns: Columns, op: Any) -> Kernel:
    fields = {name: Field(column.dtype.name, column.shape[1:]) for name, column in columns.items()}
    return family_of((op,)).compile({"": (op,)}, Site(fields=fields))


def work_of(together: int) -> Workspace:
    return Workspace(allocate=lambda _, field, rows: np.empty((rows, *field.shape), field.dtype), together=together)


def mixed(columns: Columns, op: Any, step: int | None = 1, together: int = 4) -> tuple[Columns, dict[str, Any]]:
    """What a step makes of a batch, and what it draws, by op."""
    keys, kernel = {"": DrawKeys(np.arange(ROWS), 7, step)}, kernel_of(columns, op)
    return kernel(columns, keys, work_of(together)), kernel.drawn(columns, keys, work_of(together))[""]


def partners(shift: int, together: int = 4) -> npt.NDArray[np.int64]:
    places = np.arange(ROWS)
    return places // together * together + (places + shift) % together


def of_rows(drawn: dict[str, Any]) -> list[dict[str, float]]:
    """What each row drew."""
    spread = {name: np.broadcast_to(value, (ROWS,)).tolist() for name, value in drawn.items()}
    return [{name: values[row] for name, values in spread.items()} for row in range(ROWS)]


@pytest.mark.slow
@pytest.mark.parametrize("per_row", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "uint8"])
@pytest.mark.parametrize("first", [True, False], ids=["NCHW", "NHWC"])
def test_cut_mix_is_torchvisions_for_its_rectangle(per_row: bool, dtype: str, first: bool) -> None:
    torch = pytest.importorskip("torch")
    v2 = pytest.importorskip("torchvision.transforms.v2")
    columns = batch_of(dtype, first=first)
    of, areas = v2.CutMix(alpha=1.0, num_classes=CLASSES), set()
    for step in range(8):
        made, drawn = mixed(columns, I.CutMix(num_classes=CLASSES, per_row=per_row), step)
        every, partner = of_rows(drawn["CutMix"]), partners(drawn["CutMix"]["shift"])
        for row, one in enumerate(every):
            box = [int(one[name]) for name in EDGES]
            area = (box[2] - box[0]) * (box[3] - box[1])
            areas.add(area)
            pair = [row, partner[row]]
            labels = torch.from_numpy(columns["label"][pair])
            params = {"labels": labels, "batch_size": 2, "box": box, "lam_adjusted": 1.0 - area / 600}
            images = np.ascontiguousarray(
                columns["image"][pair] if first else columns["image"][pair].transpose(0, 3, 1, 2)
            )
            wanted = of.transform(torch.from_numpy(images), params)[0].numpy()
            assert np.array_equal(made["image"][row] if first else made["image"][row].transpose(2, 0, 1), wanted)
            assert np.allclose(made["label"][row], of.transform(labels, params)[0].numpy(), atol=1e-7)
        assert made["image"].dtype == dtype
        assert made["label"].dtype == np.float32
        assert (len({tuple(one.values()) for one in every}) > 1) == per_row
    assert len(areas) > 5


@pytest.mark.slow
def test_rectangles_are_drawn_as_torchvision_draws_them() -> None:
    torch = pytest.importorskip("torch")
    v2 = pytest.importorskip("torchvision.transforms.v2")
    stats = pytest.importorskip("scipy.stats")
    columns, op, rows = batch_of(size=(40, 70)), I.CutMix(0.7, num_classes=CLASSES, per_row=True), 10_000
    drawn = kernel_of(columns, op).drawn(columns, {"": DrawKeys(np.arange(rows), 7, 1)}, work_of(4))[""]["CutMix"]
    torch.manual_seed(0)
    of, image = v2.CutMix(alpha=0.7, num_classes=CLASSES), torch.zeros(2, 3, 40, 70)
    theirs = [of.make_params([image]) for _ in range(rows)]
    for place, name in enumerate(EDGES):
        assert stats.ks_2samp(drawn[name], [one["box"][place] for one in theirs]).pvalue > 0.001, name
    kept = 1 - (drawn["right"] - drawn["left"]) * (drawn["bottom"] - drawn["top"]) / 2800
    assert stats.ks_2samp(kept, [one["lam_adjusted"] for one in theirs]).pvalue > 0.001
    assert stats.kstest(drawn["lam"], stats.beta(0.7, 0.7).cdf).pvalue > 0.001


def test_a_lambda_a_row_is_the_rows_own() -> None:
    columns, op = batch_of(), I.MixUp(0.4, num_classes=CLASSES, per_row=True)
    made, drawn = mixed(columns, op)
    lam, partner = drawn["MixUp"]["lam"], partners(drawn["MixUp"]["shift"])
    assert len(set(lam.tolist())) == ROWS
    mine = lam.reshape(-1, 1, 1, 1)
    assert np.allclose(made["image"], mine * columns["image"] + (1 - mine) * columns["image"][partner], atol=1e-3)
    classes = np.eye(CLASSES)[columns["label"]]
    assert np.allclose(made["label"], lam[:, None] * classes + (1 - lam)[:, None] * classes[partner])
    keys = {"": DrawKeys(np.arange(4, 8), 7, 1)}
    part = {name: column[4:8] for name, column in columns.items()}
    alone = kernel_of(columns, op)(part, keys, work_of(4))
    assert np.array_equal(alone["image"], made["image"][4:8])
    assert np.array_equal(alone["label"], made["label"][4:8])


def test_a_step_takes_one_of_several() -> None:
    columns, taken = batch_of(), []
    for step in range(2_000):
        drawn = kernel_of(columns, EITHER).drawn(columns, {"": DrawKeys(np.arange(ROWS), 7, step)}, work_of(4))[""]
        taken.append(drawn["RandomChoice"]["chosen"])
        assert set(drawn) == {"RandomChoice", f"RandomChoice / {taken[-1]} {('MixUp', 'CutMix')[taken[-1]]}"}
    assert abs(np.mean(taken) - 0.75) < 0.04
    for step in range(8):
        made, drawn = mixed(columns, EITHER, step)
        own = next(one for name, one in drawn.items() if "/" in name)
        partner = partners(own["shift"])
        from_either = (made["image"] == columns["image"]) | (made["image"] == columns["image"][partner])
        assert from_either.all() == bool(taken[step])
        assert np.allclose(made["label"].sum(axis=1), 1)


@pytest.mark.parametrize("op", [I.CutMix(num_classes=CLASSES), I.CutMix(num_classes=CLASSES, per_row=True), EITHER])
def test_what_is_no_full_step_is_not_mixed(op: Any) -> None:
    columns = batch_of()
    for step, together in ((1, 1), (None, 4)):
        made, drawn = mixed(columns, op, step, together)
        assert "image" not in made
        assert np.array_equal(made["label"], np.eye(CLASSES, dtype=np.float32)[columns["label"]])
        assert drawn == {type(op).__name__: {"lam": 1.0, "shift": 0}}


@pytest.mark.parametrize("size", [(1, 1), (1, 9), (9, 1), (3, 2)])
def test_tiny_images_and_few_columns(size: tuple[int, int]) -> None:
    for step in range(5):
        made, _ = mixed(batch_of(size=size), EITHER, step)
        assert np.allclose(made["label"].sum(axis=1), 1)
        assert made["image"].shape == (ROWS, 3, *size)


def test_the_layout_is_the_chains() -> None:
    """Of an image of 4 columns, whose shape does not say which axis holds channels."""
    pixels = np.random.default_rng(0).integers(0, 256, (16, 3, 4, 3), np.uint8)
    for layout in ("NCHW", "NHWC"):
        plan = ps.from_arrays({"image": pixels, "label": np.arange(16) % CLASSES})
        plan = plan.transform(image=[I.ToLayout(layout)]).batch(8).transform(I.CutMix(num_classes=CLASSES))  # type: ignore[arg-type]
        with ps.Loader(plan) as loader:
            for step, batch in enumerate(loader):
                drawn = loader.draws(0, step)["CutMix"]
                part = pixels[step * 8 :][:8] if layout == "NHWC" else pixels[step * 8 :][:8].transpose(0, 3, 1, 2)
                wanted, partner = part.copy(), (np.arange(8) + drawn["shift"]) % 8
                box: Any = (slice(drawn["top"], drawn["bottom"]), slice(drawn["left"], drawn["right"]))
                box = (slice(None), *box) if layout == "NHWC" else (slice(None), slice(None), *box)
                wanted[box] = part[partner][box]
                assert np.array_equal(batch["image"], wanted)


def plan_of(op: Any, **columns: Any) -> ps.Dataset:
    given = {"image": np.zeros((16, 9, 9, 3), np.uint8), "label": np.arange(16), **columns}
    return ps.from_arrays(given).transform(image=[I.CenterCrop(9)]).batch(8).transform(op)


WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "alpha": (lambda: I.CutMix(0, num_classes=3), "give an alpha above 0"),
    "no classes": (lambda: plan_of(I.CutMix()), "give num_classes=, since column 'label' holds class numbers"),
    "classes said twice": (lambda: plan_of(I.CutMix(num_classes=3), label=np.ones((16, 4), np.float32)), "give num_classes=4, or leave it out"),
    "per_row": (lambda: I.MixUp(num_classes=3, per_row="yes"), "give per_row=True or False"),  # type: ignore[arg-type]
    "both kinds": (lambda: I.RandomChoice([I.CutMix(num_classes=3), I.RandomInvert()]), "give a list of image ops"),
    "nested": (lambda: I.RandomChoice([I.RandomChoice([I.CutMix(num_classes=3)])]), "give a list of image ops"),
    "applied": (lambda: I.RandomApply([I.CutMix(num_classes=3)]), "give a list of image ops"),
    "other classes": (lambda: I.RandomChoice([I.CutMix(num_classes=3), I.MixUp(num_classes=4)]), "the same num_classes="),
    "other among": (lambda: I.RandomChoice([I.CutMix(num_classes=3, among=2), I.MixUp(num_classes=3)]), "columns= and among="),
    "shares": (lambda: I.RandomChoice([I.CutMix(num_classes=3)], p=[1, 2]), "for each of the 1 ops"),
    "in a chain": (lambda: ps.from_arrays({"image": np.zeros((4, 9, 9, 3), np.uint8)}).transform(image=[EITHER]), "works on whole batches"),
    "no batch": (lambda: ps.from_arrays({"label": np.arange(4)}).transform(EITHER), "there is no batch yet"),
    "no labels": (lambda: plan_of(I.CutMix(num_classes=3)).select(["image"]).transform(EITHER), "no column 'label'"),
    "text as labels": (lambda: plan_of(I.CutMix(num_classes=3, labels="text"), text=["a"] * 16), "column 'text' is string"),
    "no images": (lambda: ps.Loader(ps.from_arrays({"label": np.arange(8)}).batch(8).transform(EITHER)), "no column of images"),
    "two sizes": (lambda: ps.Loader(plan_of(EITHER, other=np.zeros((16, 5, 5, 3), np.uint8))), r"image 9 × 9, other 5 × 5 \(height × width\)"),
}  # fmt: skip


@pytest.mark.parametrize(("make", "message"), WRONG.values(), ids=WRONG)
def test_what_cannot_be(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ps.PlanError, match=message):
        make()


@pytest.mark.parametrize("op", [I.CutMix(num_classes=9), I.RandomChoice([I.CutMix(num_classes=9)])])
def test_labels_that_are_too_large_are_named(op: Any) -> None:
    with (
        ps.Loader(plan_of(op)) as loader,
        pytest.raises(ps.DataError, match="label 9 in column 'label', of num_classes=9"),
    ):
        list(loader)


@pytest.mark.parametrize("of", ["MixUp", "CutMix"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_probabilities_are_mixed_as_torchvision_mixes_them(of: str, dtype: str) -> None:
    """Labels of two axes; an op need not say how many classes there are."""
    torch = pytest.importorskip("torch")
    v2 = pytest.importorskip("torchvision.transforms.v2")
    columns = batch_of()
    columns["label"] = np.random.default_rng(1).integers(0, 9, (ROWS, CLASSES)).astype(dtype)
    for step in range(100):
        made, ((_, drawn),) = mixed_by(columns, getattr(I, of)(), step)
        if drawn["shift"] == ROWS - 1:  # the row before is the partner, as torchvision has it
            break
    area = columns["image"][0, 0].size
    cut = 0 if of == "MixUp" else (drawn["right"] - drawn["left"]) * (drawn["bottom"] - drawn["top"])
    lam = drawn["lam"] if of == "MixUp" else 1 - cut / area
    theirs = getattr(v2, of)()._mixup_label(torch.from_numpy(columns["label"]), lam=lam)
    assert made["label"].dtype == np.float32
    assert np.allclose(made["label"], theirs, rtol=1e-6)


def mixed_by(columns: Columns, op: Any, step: int) -> tuple[Columns, tuple[tuple[str, dict[str, Any]], ...]]:
    made, drawn = mixed(columns, op, step, ROWS)
    return made, tuple(drawn.items())


def test_truth_values_are_two_classes() -> None:
    columns = batch_of()
    columns["label"] = columns["label"] > 2
    made, _ = mixed(columns, I.MixUp(num_classes=2))
    assert np.allclose(np.asarray(made["label"]).sum(axis=1), 1)


def test_class_numbers_go_before_other_columns_of_labels() -> None:
    plan = plan_of(I.MixUp(num_classes=16), a_label_vector=np.ones((16, 5), np.float32))
    with ps.Loader(plan) as loader:
        assert next(iter(loader))["label"].shape == (8, 16)


def test_mix_up_takes_images_of_several_sizes() -> None:
    with ps.Loader(plan_of(I.MixUp(num_classes=16), other=np.ones((16, 5, 6, 3), np.uint8))) as loader:
        assert {batch["other"].shape for batch in loader} == {(8, 5, 6, 3)}
