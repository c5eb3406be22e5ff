"""Signatures of the compiled module, checked against it by stubtest."""

__version__: str
