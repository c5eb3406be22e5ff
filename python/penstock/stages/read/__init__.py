"""Reading: from the order's rows to columns.

`reader` (the interface), and a file for each way to reach rows: `records`, `memory`, `blocks`, `parts`, `forward`; `readers` is the table of them.
`item_planner` (work becomes an item, its rows divided among the sources), `windows` (which blocks are open), `parse` (bad rows named),
`upcoming` (when data is needed next), `ahead` (gives the cache its forecast, and prefetches into it).
"""
