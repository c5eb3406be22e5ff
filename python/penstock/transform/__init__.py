"""Transforms: columns to columns, described before anything runs.

`image` (chains of ops, fused into one kernel), `image_ops` (the ops), `function` (users' functions).
"""
