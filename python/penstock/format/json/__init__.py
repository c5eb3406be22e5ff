"""JSON lines, and JSON values as columns."""
