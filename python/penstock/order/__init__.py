"""Order: which row comes when; numbers in, numbers out.

`protocol` (what every order answers), and one file an order: `natural`, `shuffled` (both native at heart, `rust/src/order/`), `concat`,
`mixed`, `repeat`, `slice`, the first two of which share `composed`. `segments` (runs of rows below a shuffle), `batches` (an order cut into steps, and these into the ranks' shares), `lanes` and `blocks`
(sizes that follow from the data), `keys`, `cursor` (the steps from a position on), `progress` (where a loader stands), `sharing` (what
it costs that ranks share lanes, in words).
"""
