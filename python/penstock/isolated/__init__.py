"""A loader whose whole pipeline runs in one child process: `Loader(isolation="process")`.

`loader` is what the user holds, in the parent: position, state, ledger, and batches in the framework's types. `maker` is the loader in the child: it makes
items, as any loader does, and `child` serves it. `process` is the child as the parent sees it, `messages` is what the two say, and `sent` tells what cannot be sent
there; the rest is `penstock.processes`. The parent has no thread of its own, which would wait for a training loop that holds the interpreter.
"""
