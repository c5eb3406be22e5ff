"""Recognised datasets give what default_collate of the dataset's own items gives, whatever the dataset, or are not recognised."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
import torch
from torch.utils.data import ConcatDataset, Dataset, Subset, TensorDataset, default_collate
from torchvision import transforms as v1
from torchvision.datasets import DatasetFolder, ImageFolder
from torchvision.datasets.folder import pil_loader
from torchvision.transforms import v2

import penstock as ps
from penstock.torch.recognised import explain_refusal, from_torch, recognise

BATCHES = [[3, 0, -1], [5, 5, 7], [11, 6], [1]]
IMAGENET = v1.Normalize(ps.image.IMAGENET.mean, ps.image.IMAGENET.std)
TO_FLOAT = v2.ToDtype(torch.float32, scale=True)


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """12 images of two classes: JPEG and PNG, in colour, grey, of a palette, of 16 bits and with transparency."""
    root, rng = tmp_path_factory.mktemp("photos"), np.random.default_rng(0)
    for number in range(12):
        width, height = rng.integers(50, 120, 2).tolist()
        image = PIL.Image.fromarray(rng.integers(0, 255, (6, 6, 3), dtype=np.uint8)).resize((width, height))
        image = image.convert(("RGB", "L", "P", "RGBA", "I;16", "RGB")[number % 6] if number % 6 != 4 else "L")
        folder = root / ("cats" if number < 6 else "dogs")
        folder.mkdir(exist_ok=True)
        if number % 6 in (0, 1):
            image.save(folder / f"{number}.jpg", exif=PIL.Image.Exif())
        elif number % 6 == 4:
            PIL.Image.fromarray(rng.integers(0, 1 << 16, (60, 70), dtype=np.uint16)).save(folder / f"{number}.png")
        else:
            image.save(folder / f"{number}.png")
    return root


def by_items(dataset: Dataset[Any], batches: Sequence[Sequence[int]]) -> Iterator[Any]:
    return (default_collate([dataset[index] for index in batch]) for batch in batches)


def check_equal(dataset: Dataset[Any], batches: Sequence[Sequence[int]], within: float = 0) -> None:
    known = recognise(dataset)
    assert known is not None, explain_refusal(dataset)
    found = list(known.batches(batches))
    known.close()
    for made, wanted in zip(found, by_items(dataset, batches), strict=True):
        assert type(made) is type(wanted)
        for one, other in zip(made, wanted, strict=True):
            assert (type(one), one.dtype, one.shape) == (type(other), other.dtype, other.shape)
            torch.testing.assert_close(one, other, rtol=0, atol=within)


# Tensors


def test_tensors_of_any_dtype() -> None:
    for dtype in (torch.float32, torch.bfloat16, torch.complex64, torch.bool, torch.uint16, torch.int64):
        tensors = torch.arange(24).reshape(12, 2).to(dtype)
        check_equal(TensorDataset(tensors, torch.arange(12)), BATCHES)
    check_equal(TensorDataset(torch.arange(24).reshape(2, 12).T), BATCHES)  # not contiguous


def test_subsets_of_concatenations_of_subsets() -> None:
    rows = TensorDataset(torch.randn(12, 3), torch.arange(12))
    inner = ConcatDataset([rows, Subset(rows, [3, -1, 3]), Subset(ConcatDataset([rows, rows]), range(1, 20, 3))])
    check_equal(inner, [[0, 11, 12, 14, -1], [15, 21]])
    check_equal(Subset(Subset(inner, np.array([-1, 14, 0, 2])), torch.tensor([3, 0, 0, -3])), [[0, 1], [2, 3, -1]])


def test_indices_that_are_none_are_errors_as_pytorch_has_them() -> None:
    known = recognise(TensorDataset(torch.arange(4)))
    assert known is not None
    for wrong in ([4], [-5], ["a"], []):
        with pytest.raises((IndexError, TypeError)):
            list(known.batches([wrong]))
    assert next(known.batches([(np.int64(1), 2)]))[0].tolist() == [1, 2]


def test_tensors_changed_in_place_and_replaced() -> None:
    dataset = TensorDataset(torch.arange(4))
    known = recognise(dataset)
    assert known is not None
    dataset.tensors[0][2] = 9
    assert next(known.batches([[2]]))[0].tolist() == [9]
    dataset.tensors = (torch.arange(10, 20),)
    assert next(known.batches([[7]]))[0].tolist() == [17]


# Images

CHAINS: list[tuple[Callable[[Any], Any], float]] = [
    (v1.Compose([v1.CenterCrop(90), v1.PILToTensor()]), 0),
    (v2.Compose([v2.ToImage(), v2.CenterCrop((40, 200))]), 0),
    (v1.Compose([v1.CenterCrop(40), v1.Grayscale(3), v1.ToTensor()]), 1e-6),
    (v1.Compose([v1.Resize((32, 40)), v1.PILToTensor()]), 1),
    (v1.Compose([v1.Resize((32, 40), interpolation=v1.InterpolationMode.BICUBIC), v1.PILToTensor()]), 1),
    (v1.Compose([v1.Resize(48), v1.Compose([v1.CenterCrop(40)]), v1.ToTensor(), IMAGENET]), 1 / 255 / 0.224 + 1e-5),
    (v2.Compose([v2.ToImage(), v2.Resize((32, 32)), TO_FLOAT, v2.Normalize((0.5,), (0.5,))]), 2 / 255 + 1e-5),
    (
        torch.nn.Sequential(v2.Resize(32, max_size=40), v2.CenterCrop(40), v2.PILToTensor(), v2.ToDtype(torch.float32)),
        1,
    ),
]


@pytest.mark.parametrize(("transform", "within"), CHAINS)
def test_images(photos: Path, transform: Any, within: float) -> None:
    check_equal(ImageFolder(str(photos), transform), BATCHES, within)


def test_folders_in_subsets_and_concatenations(photos: Path) -> None:
    images = ImageFolder(str(photos), v1.Compose([v1.CenterCrop(40), v1.ToTensor()]))
    files = DatasetFolder(str(photos), pil_loader, (".jpg", ".png"), transform=images.transform)
    check_equal(Subset(ConcatDataset([images, Subset(files, [7, 8])]), [13, 0, 5, 12]), [[0, 1], [3, 2, 2]], 1e-6)


def test_random_transforms_draw_by_seed_batch_and_place(photos: Path) -> None:
    transform = v2.Compose([v2.RandomResizedCrop(24), v2.RandomHorizontalFlip(), v2.ToImage(), TO_FLOAT])
    known = recognise(ImageFolder(str(photos), transform))
    assert known is not None
    assert "the same distribution" in known.explain()
    whole = [images for images, _ in known.batches([[0, 0], [1, 0], [2]], seed=5)]
    rest = [images for images, _ in known.batches([[1, 0], [2]], seed=5, first_batch=1)]
    assert all(torch.equal(one, other) for one, other in zip(whole[1:], rest, strict=True))
    assert not torch.equal(whole[0][0], whole[0][1])
    assert not torch.equal(whole[0], next(known.batches([[0, 0]], seed=6))[0])
    known.close()


def test_attributes_changed_by_hand(photos: Path) -> None:
    dataset = ImageFolder(str(photos), v1.Compose([v1.CenterCrop(40), v1.PILToTensor()]))
    dataset.samples = [(path, 7) for path, _ in dataset.samples[3:]]
    dataset.targets = []
    known = recognise(dataset)
    assert known is not None
    for change in (
        lambda: None,
        lambda: dataset.samples.__setitem__(0, (dataset.samples[2][0], 8)),
        lambda: setattr(dataset, "transform", v1.Compose([v1.CenterCrop(20), v1.PILToTensor()])),
        lambda: setattr(dataset, "target_transform", str),  # from here on by items
    ):
        change()
        made = list(known.batches([[0, 1], [5]]))
        for one, other in zip(made, by_items(dataset, [[0, 1], [5]]), strict=True):
            assert torch.equal(one[0], other[0])
            assert list(one[1]) == list(other[1])
    known.close()


def test_files_that_pillow_reads_and_damaged_ones(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    image = PIL.Image.open(min((photos / "cats").glob("*.jpg")))
    for number in range(6):
        image.save(tmp_path / "a" / f"{number}.jpg")
    image.save(tmp_path / "a" / "1.png", format="TIFF")  # Pillow looks at the content
    dataset = ImageFolder(str(tmp_path), v1.Compose([v1.CenterCrop(200), v1.ToTensor()]))
    check_equal(dataset, [[0], [1, 2], [3]], 1e-6)
    path = Path(dataset.samples[4][0])
    path.write_bytes(path.read_bytes()[:-100])
    known = recognise(dataset)
    assert known is not None
    batches = known.batches([[0], [4], [1]])
    next(batches)
    with pytest.raises(OSError, match="truncated"):
        next(batches)
    image.resize((9, 9)).save(path)  # other bytes than were listed
    assert [len(images) for images, _ in known.batches([[4, 1], [1]])] == [2, 1]
    known.close()


def test_sizes_that_differ_are_pytorchs_error(photos: Path) -> None:
    known = recognise(ImageFolder(str(photos), v1.ToTensor()))
    assert known is not None
    with pytest.raises(RuntimeError, match="stack"):
        list(known.batches([[0, 1, 2]]))
    known.close()


def test_a_pass_that_is_left_and_one_that_follows(photos: Path) -> None:
    known = recognise(ImageFolder(str(photos), v1.Compose([v1.CenterCrop(20), v1.PILToTensor()])))
    assert known is not None
    left = known.batches([[number] for number in range(12)])
    next(left)
    assert len(list(known.batches([[0], [1]]))) == 2
    with pytest.raises(RuntimeError, match="another pass"):
        next(left)

    def failing() -> Iterator[list[int]]:
        yield [0]
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        list(known.batches(failing()))
    known.close()


# What is not recognised


class MyTensors(TensorDataset):
    """May do anything."""


class MyFlip(v1.RandomHorizontalFlip):
    """May do anything."""


def refused(photos: Path) -> list[tuple[Any, str]]:
    images = ImageFolder(str(photos), v1.ToTensor())
    hooked = v2.CenterCrop(8)
    hooked.register_forward_hook(lambda *_: None)

    def with_transform(*steps: Any) -> ImageFolder:
        return ImageFolder(str(photos), v1.Compose([*steps, v1.ToTensor()]))

    changed = ConcatDataset([TensorDataset(torch.arange(3))])
    changed.datasets[0] = TensorDataset(torch.arange(5))
    return [
        ([1, 2], "no dataset that is known"),
        (MyTensors(torch.arange(3)), "no dataset that is known"),
        (TensorDataset(torch.ones(3, requires_grad=True)), "gradients"),
        (TensorDataset(torch.nn.Parameter(torch.ones(3), requires_grad=False)), "Parameter"),
        (Subset(TensorDataset(torch.arange(3)), [0, 3]), "beyond"),
        (changed, "changed their lengths"),
        (ConcatDataset([images, TensorDataset(torch.arange(3))]), "not alike"),
        (ImageFolder(str(photos)), "PIL images"),
        (ImageFolder(str(photos), lambda image: image), "no native equivalent"),
        (with_transform(v1.ColorJitter()), "ColorJitter"),
        (with_transform(MyFlip()), "MyFlip"),
        (with_transform(hooked), "hooks"),
        (with_transform(v1.Resize(8, interpolation=v1.InterpolationMode.BOX)), "box"),
        (ImageFolder(str(photos), v1.ToTensor(), target_transform=str), "target_transform"),
        (ImageFolder(str(photos), v1.ToTensor(), loader=PIL.Image.open), "loader"),
        (ImageFolder(str(photos), v1.Compose([v1.ToTensor(), v1.Resize(8)])), "Resize"),
    ]


def test_what_is_not_recognised_says_why(photos: Path) -> None:
    for dataset, why in refused(photos):
        assert recognise(dataset) is None
        assert why in explain_refusal(dataset)
    gone = ImageFolder(str(photos), v1.ToTensor())
    gone.samples = [("/nowhere/1.png", 0)]
    assert recognise(gone) is None


# Plans


def test_plans_have_the_rows_of_the_dataset(photos: Path) -> None:
    images = ImageFolder(str(photos), v1.Compose([v1.CenterCrop(20), v1.PILToTensor()]))
    dataset = Subset(ConcatDataset([images, images]), [13, 0, 0, -1])
    plan = from_torch(dataset)
    for batch, (wanted, labels) in zip(
        ps.Loader(plan.batch(2), to="torch"), by_items(dataset, [[0, 1], [2, 3]]), strict=True
    ):
        assert torch.equal(batch["0"], wanted)
        assert torch.equal(batch["1"], labels)
    loader = ps.Loader(plan.shuffle(seed=0).batch(1), to="torch")
    before = [next(iter(loader))["1"]]
    state = loader.state_dict()
    rest = [batch["1"] for batch in ps.Loader(plan.shuffle(seed=0).batch(1), to="torch")]
    loader.load_state_dict(state)
    assert torch.equal(torch.cat(rest), torch.cat([*before, *(batch["1"] for batch in loader)]))


def test_other_datasets_are_read_by_items() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (batch,) = ps.Loader(from_torch(MyTensors(torch.arange(3), torch.ones(3))).batch(3), to="torch")
    assert batch["0"].tolist() == [0, 1, 2]
