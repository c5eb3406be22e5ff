"""The drop-in and its iterators are what code that has PyTorch's expects, whatever it does with them."""

from __future__ import annotations

import copy
import gc
import pickle
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader as TorchLoader
from torch.utils.data import TensorDataset
from torch.utils.data.dataloader import _BaseDataLoaderIter, _MultiProcessingDataLoaderIter

from penstock.torch import DataLoader
from penstock.torch.processes import Workers
from support.dataloader_cases import Squares, Stream

TENSORS = TensorDataset(torch.arange(10))


@pytest.mark.parametrize("dataset", [TENSORS, Squares(10)])
def test_a_loader_that_fetched_can_be_copied(dataset: Any) -> None:
    loader = DataLoader(dataset, batch_size=4)
    iterator = iter(loader)
    next(iterator)
    loader.choice.workers = Workers(2)  # none runs
    for made in (pickle.loads(pickle.dumps(loader)), copy.deepcopy(loader), copy.copy(loader)):
        assert len(list(made)) == 3
        assert made.state_dict() == {"version": 1, "batches": 0}
    assert len(list(iterator)) == 2


def test_iterators_are_pytorchs() -> None:
    for loader in (DataLoader(TENSORS), DataLoader(Squares()), DataLoader(Squares(), tune=False), DataLoader(Stream())):
        iterator = iter(loader)
        assert isinstance(iterator, _BaseDataLoaderIter)
        assert iter(iterator) is iterator
        for copied in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(NotImplementedError):
                copied(iterator)
        next(loader._get_iterator())
        assert loader.state_dict()["batches"] == 0


@pytest.mark.slow
def test_iterators_with_workers_are_pytorchs() -> None:
    loader = DataLoader(Squares(8), batch_size=2, num_workers=1, persistent_workers=True)
    first = iter(loader)
    assert isinstance(first, _MultiProcessingDataLoaderIter)
    assert iter(loader) is first
    next(first)
    assert loader.state_dict()["batches"] == 1
    assert len(list(first)) == 3
    assert loader.state_dict()["batches"] == 0


@pytest.mark.parametrize("options", [{"timeout": 3}, {"generator": 3}, {"generator": 3, "shuffle": True}])
def test_what_pytorch_refuses_is_its_error(options: dict[str, Any]) -> None:
    found = []
    for kind in (TorchLoader, DataLoader):
        with pytest.raises((AssertionError, TypeError)) as raised:
            iter(kind(Squares(), **options))
        found.append((raised.type, str(raised.value)))
    assert found[0] == found[1]
    gc.collect()  # an iterator that was never begun says nothing when it goes
