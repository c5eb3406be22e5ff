"""What is seen behind each op is what the chain up to it makes, with the draws of the whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import penstock as ps
from penstock.core.columns.op_step import OpStep
from penstock.tools.few_rows import FewRows
from support.images import encoded, picture

I = ps.image  # noqa: E741  # as users write it

OPS = (
    I.Decode("RGB"),
    I.RandomResizedCrop(48),
    I.RandomApply([I.ColorJitter(0.4, 0.4, 0.4, 0.1)], p=0.7),
    I.RandomHorizontalFlip(),
    I.TrivialAugmentWide(),
    I.Normalize(I.IMAGENET),
    I.RandomErasing(p=0.8),
)


def files(*sizes: tuple[int, int], mode: str = "RGB", kind: str = "PNG") -> Any:
    return ps.from_dataset(
        [{"image": encoded(picture(*size, seed=seed, mode=mode), kind)} for seed, size in enumerate(sizes)]
    )


def pixels() -> Any:
    photos = np.stack([np.asarray(picture(64, 56, seed=seed)) for seed in range(4)])
    return ps.from_arrays({"image": photos})


def steps_of(plan: Any, rows: int = 3, column: str = "image") -> list[list[OpStep]]:
    with FewRows(plan.root) as few:
        return [row[column] for row in few.head_in_steps(rows)[1]]


def last(plan: Any, row: int) -> npt.NDArray[Any]:
    """A row of a plan, channels last."""
    return np.moveaxis(plan[row]["image"], 0, 2)


@pytest.mark.parametrize("is_dense", [True, False])
def test_a_step_is_what_the_chain_up_to_it_makes(is_dense: bool) -> None:
    data = pixels() if is_dense else files((64, 56), (64, 56), (64, 56))
    ops = OPS[1:] if is_dense else OPS
    found = steps_of(data.transform(image=ops))
    assert [step.op for step in found[0]] == [f"{place} {type(op).__name__}" for place, op in enumerate(ops)]
    for count in range(1, len(ops) + 1):
        plan = data.transform(image=ops[:count])
        for row in range(3):
            step, made = found[row][count - 1], last(plan, row)
            assert np.array_equal(step.pixels, made), (count, row)
            assert (step.size, step.dtype, step.note) == (made.shape[:2], str(made.dtype), "")


@pytest.mark.parametrize("batch", [4, 3])
def test_steps_and_draws_are_those_of_the_training(batch: int) -> None:
    plan = files(*[(64 + row, 60 - row) for row in range(12)]).shuffle(seed=3).transform(image=OPS).batch(batch)
    found = steps_of(plan)
    with ps.Loader(plan) as loader:
        made, drawn = loader.batch_at(0, 0)["image"], loader.draws(0, 0)["image"]
    for row in range(3):
        assert np.array_equal(found[row][-1].pixels, np.moveaxis(made[row], 0, 2))
        told = {f"{step.op} {name}": value for step in found[row] for name, value in step.drawn.items()}
        wanted = {
            f"{op.replace(' /', '')} {name}": values[row]
            for op, parameters in drawn.items()
            for name, values in parameters.items()
            if not np.isnan(values[row])
        }
        assert told == wanted


@pytest.mark.parametrize("is_dense", [True, False])
def test_sizes_that_are_drawn_are_seen(is_dense: bool) -> None:
    data = pixels() if is_dense else files((64, 56), (90, 40), (30, 80))
    decode = [] if is_dense else [I.Decode("RGB")]
    ops = [
        *decode,
        I.RandomShortestSize([20, 30, 41, 52]),
        I.RandomResize(24, 64),
        I.RandomCrop(32, pad_if_needed=True),
    ]
    sizes = set()
    for row in steps_of(data.transform(image=ops)):
        shortest, resized, cropped = row[-3:]
        assert min(shortest.size or ()) == shortest.drawn["min_size"]
        assert (resized.pixels is not None, resized.note, cropped.size) == (True, "", (32, 32))
        assert resized.pixels.shape[:2] == resized.size  # type: ignore[union-attr]  # just seen
        sizes |= {shortest.size, resized.size}
    assert len(sizes) > 2


def test_images_of_any_size_are_seen_as_they_are_before_they_are_one_size() -> None:
    rows = steps_of(files((64, 56), (90, 40), (400, 700)).transform(image=[I.Decode("RGB"), I.Resize((16, 16))]))
    assert [row[0].size for row in rows] == [(56, 64), (40, 90), (700, 400)]
    assert rows[2][0].pixels.shape == (234, 134, 3)  # type: ignore[union-attr]  # it is there, and thinned


@pytest.mark.parametrize("mode", ["L", "LA", "RGBA", "P", "I16", "unchanged"])
def test_all_modes_are_seen(mode: Any) -> None:
    data = files((20, 30), mode="P" if mode == "P" else "L")
    (row,) = steps_of(data.transform(image=[I.Decode(mode), I.Resize((9, 9), interpolation="nearest")]), 1)
    assert [step.pixels is not None and step.pixels.shape for step in row] == [
        (30, 20, {"LA": 2, "RGBA": 4}.get(mode, 1)), (9, 9, {"LA": 2, "RGBA": 4}.get(mode, 1))
    ]  # fmt: skip


def test_axes_are_last_whatever_their_order() -> None:
    ops = [I.Decode("RGB"), I.Resize((9, 12)), I.ToLayout("NHWC"), I.ToDtype("bfloat16", scale=True)]
    (row,) = steps_of(files((20, 30)).transform(image=ops), 1)
    assert [step.op for step in row] == ["0 Decode", "1 Resize", "3 ToDtype"]
    assert [step.pixels is not None and step.pixels.shape[2] for step in row] == [3, 3, 3]
    bytes_of, floats = row[1].pixels, row[2].pixels
    assert bytes_of is not None
    assert floats is not None
    assert np.abs(floats - bytes_of / 255).max() < 0.01


def test_views_have_steps_of_their_own() -> None:
    ops = [I.RandomResizedCrop(16), I.RandomHorizontalFlip()]
    plan = files((64, 56), (50, 60)).transform(image=[I.Decode("RGB"), *ops], view=I.From("image", ops))
    image, view = steps_of(plan, 1), steps_of(plan, 1, "view")
    assert [step.op for step in view[0]] == ["0 Decode", "1 RandomResizedCrop", "2 RandomHorizontalFlip"]
    assert np.array_equal(view[0][0].pixels, image[0][0].pixels)
    assert not np.array_equal(view[0][1].pixels, image[0][1].pixels)
    assert np.array_equal(view[0][-1].pixels, np.moveaxis(plan[0]["view"], 0, 2))


def test_transforms_one_after_another_are_one_list() -> None:
    plan = files((64, 56), (50, 60)).transform(image=[I.Decode("RGB"), I.Resize((20, 20))])
    behind = plan.shuffle(seed=0).transform(image=I.RandomHorizontalFlip()).batch(2)
    found = steps_of(behind, 1)[0]  # the second transform gets channels first
    assert [step.op for step in found] == ["0 Decode", "1 Resize", "0 RandomHorizontalFlip"]
    assert [step.pixels is not None and step.pixels.shape for step in found[1:]] == [(20, 20, 3)] * 2
    joined = plan.transform(image=I.RandomHorizontalFlip())
    assert [step.op for step in steps_of(joined, 1)[0]] == ["0 Decode", "1 Resize", "2 RandomHorizontalFlip"]
    last = plan.transform(image=I.ToLayout("NHWC")).map(lambda batch: batch).transform(image=I.Normalize(I.IMAGENET))
    assert [step.op for step in steps_of(last, 1)[0]] == ["0 Decode", "1 Resize", "0 Normalize"]


def test_ops_behind_a_cache_keep_their_names() -> None:
    """A cache adds an op that orders axes, which has no number of its own."""
    ops = [I.RandomHorizontalFlip(), I.Normalize(I.IMAGENET), I.RandomErasing(p=1)]
    plan = pixels().transform(image=I.CenterCrop(32)).cache().transform(image=ops).batch(4)
    with ps.Loader(plan) as loader:
        list(loader)
        assert list(loader.draws(0, 0)["image"]) == ["0 RandomHorizontalFlip", "2 RandomErasing"]
    assert [step.op for step in steps_of(plan, 1)[0]] == ["0 RandomHorizontalFlip", "1 Normalize", "2 RandomErasing"]
    frozen = pixels().transform(image=I.RandomCrop(32)).cache(freeze_random=True)
    list(ps.Loader(frozen.batch(4)))
    with pytest.raises(ps.PlanError, match="not behind a cache"):
        frozen.show(1, steps=True)


def test_sources_side_by_side_and_one_after_another_are_seen() -> None:
    data = files((64, 56), (50, 60)).transform(image=[I.Decode("RGB"), I.Resize((20, 20))])
    other = pixels().transform(image=I.Resize((20, 20)))
    found = steps_of(ps.concat([data, other]), 4)
    assert [[step.op for step in row] for row in found] == [["0 Decode", "1 Resize"]] * 2 + [["0 Resize"]] * 2
    mixed = ps.mix([data, other], weights=[0.5, 0.5], rows=8).batch(4, lanes=2)
    assert sorted(len(row) for row in steps_of(mixed, 4)) == [1, 1, 2, 2]


def test_a_step_that_cannot_be_seen_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.transform.image.steps.MOST_PIXELS", 6000)
    plan = files((90, 80)).transform(image=[I.Decode("RGB"), I.CenterCrop(8)])
    (row,) = steps_of(plan, 1)
    assert (row[0].pixels, row[0].size, row[0].note) == (None, (80, 90), "too many pixels to be looked at")
    assert row[1].pixels is not None


def test_a_damaged_image_is_the_error_that_it_always_is() -> None:
    data = ps.from_dataset([{"image": encoded(picture(20, 20), "JPEG")[:200]}])
    with pytest.raises(ps.DataError, match="JPEG"):
        steps_of(data.transform(image=[I.Decode("RGB"), I.Resize((8, 8))]), 1)
