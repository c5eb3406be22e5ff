"""Transforms turn columns into columns, and are described before anything runs.

`image/` has the image ops, and fuses a chain of them into one kernel. `function` calls users' functions.
"""
