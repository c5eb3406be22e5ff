"""From a plan to what is known of it before anything runs: rows, first ids, orders; arithmetic, no I/O.

`resolved` (`resolve(root)`: what follows from each node), `orders` (the table: which order a verb makes of the rows below it), `ordering` (a whole plan's order, with its batches), `cut` (where
lane stages begin), `row_places` (names of rows). `order_checks`, `draw_checks` and `cache_checks` refuse what cannot work when the verb is written.
"""

from penstock.resolve.resolved import resolve as resolve
