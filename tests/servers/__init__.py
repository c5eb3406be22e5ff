"""Real servers for tests, started on loopback."""
