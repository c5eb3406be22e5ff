"""The stage of `map` and `map_rows`: calls a user's function."""

from __future__ import annotations

from penstock.batch.stack import field_of, materialize
from penstock.core import kernels
from penstock.core.draw_keys import DrawKeys
from penstock.order.keys import STEP_KEY, TRANSFORM_KEY
from penstock.runtime.stage import Columned
from penstock.stages.call import FunctionCalls


class CallFunction:
    """Calls a user's function, here or in another process."""

    def __init__(
        self,
        sources: tuple[int, int],
        call: FunctionCalls,
        seed: int,
        number: int,
        *,
        is_frozen: bool = False,
    ) -> None:
        self._sources, self._call, self._seed, self._number = sources, call, seed, number
        self._is_frozen = is_frozen

    def __call__(self, item: Columned) -> Columned:
        """Replaces all columns by what the function returns; PlanError if that is no batch of as many rows."""
        part = item.part(self._sources)
        if part is None:
            return item
        epoch, keys = item.draw_of(part, is_frozen=self._is_frozen)
        key = kernels.mix([self._seed, epoch, TRANSFORM_KEY, self._number])
        part.columns = self._call(materialize(part.columns), DrawKeys(keys, key, self._step_key(item)))
        part.spec = {name: field_of(column) for name, column in part.columns.items()}
        return item

    def _step_key(self, item: Columned) -> int | None:
        step = None if self._is_frozen else item.work.step_in_epoch
        return None if step is None else kernels.mix([self._seed, item.epoch, STEP_KEY, self._number, step])
