"""Ops on text for the engine: the chains of a transform run op after op, each on whole columns."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.core.columns.spec import Columns
from penstock.core.draw_keys import DrawKeys
from penstock.core.errors import PlanError
from penstock.core.messages import quoted
from penstock.transform.family import Chains, Family, Kernel, Site, Workspace, needs_of, one_column
from penstock.transform.text.op import Step, TextOp


class TextKernel(Kernel):
    """Chains of text ops, compiled."""

    def __init__(self, chains: Chains, site: Site) -> None:
        self.columns = tuple(dict.fromkeys(column for name, ops in chains.items() for column in needs_of(name, ops)))
        self._steps = dict[str, list[Step]]()
        self.fields = {}
        for name, ops in chains.items():
            numbers, fields = site.numbers.get(name, tuple(range(len(ops)))), dict(site.fields)
            self._steps[name] = []
            for op, number in zip(ops, numbers, strict=True):
                self._steps[name].append(op.step(name, fields, number))
                fields = op.output(name, fields)
            self.fields |= {one: fields[one] for op in ops for one in op.makes(name)}

    def __call__(self, columns: Columns, keys: Mapping[str, DrawKeys], work: Workspace) -> Columns:
        """See `Kernel`."""
        made: Columns = {}
        for name, steps in self._steps.items():
            there: Columns = {one: one_column(one, columns) for one in self.columns}
            for step in steps:
                new = step(there, keys[name], work)
                there |= new
                made |= new
        return made


class TextFamily(Family):
    """See `Family`."""

    def compile(self, chains: Chains, site: Site) -> Kernel:
        """See `Family`."""
        for name, ops in chains.items():
            for op in ops:
                if not isinstance(op, TextOp):
                    raise PlanError(
                        f"transform: {op} on column {quoted(name)} stands beside ops of penstock.text; write it in a transform of its own"
                    )
        return TextKernel(chains, site)


FAMILY = TextFamily()
