"""The plan: what the user wrote, as a tree. It describes and never runs.

`node` (what every verb says of itself: its traits), `nodes` (the kinds, frozen descriptions that check themselves), `tree` (going through them, and rewriting), `columns` (which there are at a
node), `check` (what no kind can say alone), `rules/` (the optimiser's, one a file), `explain`; `saved` (what a state says of a plan: `verb_parts`, `function_parts`, `plain_values`) and `difference` (how
two plans differ, in words).
"""
