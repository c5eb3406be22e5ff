"""The plan: what the user wrote, as data. It describes and never runs.

`nodes` (frozen descriptions), `check` (what is wrong before anything runs), `optimize`, `explain`; `saved` (what a state says of a plan: `parts`,
`function_parts`, `plain_values`) and `difference` (how two plans differ, in words).
"""
