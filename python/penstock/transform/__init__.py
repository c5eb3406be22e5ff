"""Transforms turn columns into columns, and are described before anything runs.

`image` (chains of ops, fused into one kernel), `image_ops` (the ops), `function` (users' functions).
"""
