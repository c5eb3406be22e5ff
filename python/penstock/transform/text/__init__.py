"""Text ops: `ps.text.Bytes()`; a row here for each.

`op` says what an op is: a dataclass with what comes out and a step, from columns to columns. `family` runs chains of them. `bytes` has what byte-level models take.
"""

from penstock.transform.text.bytes import Bytes

__all__ = ["Bytes"]
