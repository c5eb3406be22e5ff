"""Requests to a store: planned, paced, retried, hedged, over obstore or the native client."""
