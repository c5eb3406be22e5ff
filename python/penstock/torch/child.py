"""What runs in a process that fetches batches of a dataset: it waits for indices, and answers with the batch."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.data._utils.fetch import _MapDatasetFetcher

from penstock.processes.link import Link, unpickled
from penstock.processes.memory import Regions
from penstock.processes.polite import politely
from penstock.processes.raised import raised
from penstock.torch.seeds import seed_all
from penstock.torch.tensors import send_as_arrays


def serve(link: Link, _: Regions) -> None:
    """Serves until the parent closes its end."""
    torch.set_num_threads(1)
    send_as_arrays()
    fetcher = _Fetcher()
    while True:
        _serve_one(link, fetcher)


class _Fetcher:
    """The dataset that came last."""

    def __init__(self) -> None:
        self._pickled = b""
        self._loaded: Any = None
        self._is_new = True  # nobody waits for the first dataset

    def take(self, pickled: bytes) -> None:
        """Another dataset, loaded when it is first asked for a batch."""
        self._pickled, self._loaded = pickled, None

    def answer(self, seed: int, index: Any) -> Any:
        """A batch, or what was raised."""
        try:
            if self._loaded is None:
                if self._is_new:
                    politely(lambda: unpickled(self._pickled))
                self._is_new = False
                self._loaded = _MapDatasetFetcher(*unpickled(self._pickled))
            seed_all(seed)
            return self._loaded.fetch(index)
        except BaseException as error:  # the parent raises it
            return raised(error)


def _serve_one(link: Link, fetcher: _Fetcher) -> None:
    message = link.receive()
    if isinstance(message, bytes):
        fetcher.take(message)
        return
    try:
        link.send(fetcher.answer(*message))
    except Exception as error:  # a batch that cannot be pickled
        link.send(raised(error))
