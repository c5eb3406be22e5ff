"""Text ops: `ps.text.Bytes()`; a row here for each, and the family that compiles them.

`bytes` has what byte-level models take.
"""

from penstock.transform.text.bytes import FAMILY, Bytes

__all__ = ["FAMILY", "Bytes"]
