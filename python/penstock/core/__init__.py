"""The base of everything else: columns, shards, errors, limits, the binding to native code. Imports only itself."""
