"""Order: which row comes when; numbers in, numbers out.

`protocol` (what every order answers), `rows/` (a file an order), `steps/` (an order cut into steps, and these into the ranks' shares). `lanes`, `blocks` (sizes that follow from the
data), `keys` (of random numbers), `choose` (rows by chance: `balance`, `split`, `sample`), `substitutes` (for bad rows), `sharing` (what it costs that ranks share lanes, in words), `quality`
(how well an order mixes), `epoch_contents` (what an epoch holds, for the ledger).
"""
