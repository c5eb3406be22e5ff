"""The cache of remote ranges on the local disk: its index, its packs, and what is evicted."""
