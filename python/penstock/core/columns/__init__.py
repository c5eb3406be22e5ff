"""What a column is (`spec`), and its forms in memory: `rows`, `ragged`, `repeated_values`."""
