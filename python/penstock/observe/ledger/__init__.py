"""The ledger: which rows every rank took, step by step, and the proof that none was lost or repeated.

`format` (the bytes of a file), `writer` (what a Loader appends to), `reader` (files, with every checksum compared), `verify` (all files
of a training run together), `timeline` (what was resumed where), `rows` (how often each row came), `words` (the findings for people).
"""
