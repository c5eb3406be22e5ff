"""Arrow IPC files and streams, and Feather V2."""
