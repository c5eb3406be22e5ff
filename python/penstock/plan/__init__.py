"""The plan: what the user wrote, as data."""
