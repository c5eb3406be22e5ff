"""Datasets that are not files: arrays and Python objects in memory, iterables, pipes, SQL."""
