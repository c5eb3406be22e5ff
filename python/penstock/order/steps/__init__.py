"""Which rows a step takes, and which of them a rank.

`batches` cuts any order. `bucketed` and `tokens` (with `token_cut`, `token_batches`) take a step's rows from one group of similar rows, in the order of `group_turns`. `cursor` goes
through steps from a position on. `asked` and `demand`: work that is no step, of lanes that are behind or of ids.
"""
