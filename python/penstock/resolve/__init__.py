"""From a plan to what is known of it before anything runs: rows, first ids, orders; arithmetic, no I/O.

`row_counts` (how many rows), `row_orders` (a node's order), `ordering` (a whole plan's, with its batches), `zipping` (which rows belong together), `row_places` (names of rows), `cut` (where
lane stages begin). `order_checks`, `draw_checks` and `cache_checks` refuse what cannot work when the verb is written.
"""
