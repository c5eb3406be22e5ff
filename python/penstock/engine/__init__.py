"""The engine: makes what the plan describes happen; knows nothing of formats."""
