"""Verbs that read columns when they are written: `filter(expression)`, `balance`, `split`, `sample`, `sort`, `zip(…, on=key)`.

`verbs` and `pairing` have the verbs; `rows` reads what they need, in the plan's natural order, and keeps what they chose; `column_values` evaluates expressions, `row_keys` makes keys of values.
"""
