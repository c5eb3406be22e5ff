"""Which row of a lane comes when: a file an order, each of which answers what `order.protocol.RowOrder` asks.

Of one source: `natural`, `shuffled`, `streamed` (native at heart, `rust/src/order/`), which number the rows of `segments` or `chosen` ids. Of other orders: `concat` and `mixed` (with
`several_inputs`), `repeat`, `slice`, `zipped`. `lane_rows`: what a lane stage gives. `by_id`: rows that are asked for one by one.
"""
