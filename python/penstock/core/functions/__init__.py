"""Users' functions: what identifies them, the loop that runs their coroutines, the random generators that they draw from."""
