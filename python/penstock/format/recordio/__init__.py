"""MXNet's RecordIO."""
