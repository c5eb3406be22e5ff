"""What everything else is built on: columns, shards, errors, limits, the door to the native code. Imports nothing of Penstock but itself."""
