"""Checksums that `penstock index --checksums` made: stored, built, and compared where bytes enter."""
