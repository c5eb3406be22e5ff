"""The plan: what the user wrote, as a tree. It describes and never runs.

`nodes` (frozen descriptions), `tree` (going through them, and rewriting), `check` (what is wrong before anything runs), `rules/` (the
optimiser's, one a file), `explain`; `saved` (what a state says of a plan: `parts`, `function_parts`, `plain_values`) and `difference` (how
two plans differ, in words).
"""
