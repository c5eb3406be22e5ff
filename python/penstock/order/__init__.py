"""Order: which sample comes when; numbers in, numbers out.

`epoch` (the arithmetic of a plan's order; its hot loops are native, `rust/src/order/`), `lanes` and `blocks` (sizes that follow from the data),
`cursor` (the steps from a position on), `progress` (where a loader stands), `sharing` (what it costs that ranks share lanes, in words).
"""
