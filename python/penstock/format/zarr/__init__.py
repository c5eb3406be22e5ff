"""Zarr 2 and 3."""
