"""The drop-in and its iterators are what code that has PyTorch's expects, whatever it does with them."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import traceback
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader as TorchLoader
from torch.utils.data import TensorDataset
from torch.utils.data.dataloader import _BaseDataLoaderIter, _MultiProcessingDataLoaderIter

from penstock.torch import DataLoader
from penstock.torch.processes import Workers
from penstock.torch.tensors import _reduced, digest_of
from support.dataloader_cases import FailsElsewhere, FailsOddly, Squares, Stream, Strided, TwoWordsError, as_list

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


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.bool])
def test_tensors_keep_their_strides(dtype: torch.dtype) -> None:
    rows = torch.arange(120).reshape(2, 3, 4, 5).to(dtype)
    for tensor in (
        rows,
        rows.permute(3, 2, 1, 0),
        rows.permute(2, 0, 3, 1),
        rows.contiguous(memory_format=torch.channels_last),
        rows[:, :, :, 1:],
        rows[:, :, 1:, :-1],
        rows[0, 0, 0, :1].expand(7, 3),
        rows[:0],
        rows[0, 0, 0, 0],
        rows[:, :, :, ::2],
    ):
        make, arguments = _reduced(tensor)
        made = make(*pickle.loads(pickle.dumps(arguments)))
        assert torch.equal(made, tensor)
        assert made.stride() == tensor.stride()
        assert digest_of(made) == digest_of(tensor)
    make, arguments = _reduced(rows[..., :1])
    assert make(*arguments).is_contiguous(), "most of what is between them would be sent"
    assert digest_of(make(*arguments)) != digest_of(rows[..., :1]), "and such batches are not fetched elsewhere"


@pytest.mark.slow
@pytest.mark.usefixtures("at_once")
def test_strides_and_errors_from_processes() -> None:
    loader, theirs = (kind(Strided(), batch_size=5, collate_fn=as_list) for kind in (DataLoader, TorchLoader))
    assert [digest_of(batch) for batch in loader] == [digest_of(batch) for batch in theirs]
    assert "2 processes" in loader.explain()
    loader.choice.close()
    loader = DataLoader(FailsOddly(), batch_size=5)
    iterator = iter(loader)
    with pytest.raises(TwoWordsError, match="no picture") as raised:
        list(iterator)
    assert raised.value.one == "no"
    assert isinstance(raised.value.__cause__, KeyError)
    assert "dataloader_cases.py" in "".join(traceback.format_tb(raised.tb))
    assert len(list(iterator)) == 3
    assert "2 processes" in loader.explain()
    loader.choice.close()
    loader = DataLoader(FailsElsewhere(os.getpid()), batch_size=5)
    assert [batch["y"].tolist()[0] for batch in loader] == [index**2 for index in range(0, 50, 5)]
    assert "failed in another process, and not in this one (FileNotFoundError: 33)" in loader.explain()
