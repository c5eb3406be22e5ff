"""Observing: figures, the verdict, reports. Reads figures and never touches the pipeline.

`metrics` (a stage's counters), `store` (which limit of a store was met), `verdict` (the bottleneck), `stats` and `report` (for programs, for people).
"""
