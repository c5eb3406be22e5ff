"""Figures, the verdict and reports. Reads figures, never touches the pipeline.

`metrics` (a stage's counters), `store` (which limit of a store was reached), `verdict` (the bottleneck), `stats` (for programs), `report` (for people).
"""
