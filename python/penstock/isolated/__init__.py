"""A loader whose whole pipeline runs in one child process: `Loader(isolation="process")`.

`loader` is what the user holds, in the parent: position, state, ledger, and batches in the framework's types. `maker` is the loader in the child: it makes
items, as any loader does, and `child` serves it. `process` starts and ends the child, `sent` says what cannot be sent there, `link` is how the two talk, and
`regions` the memory that both map. The parent has no thread of its own, which would wait for a training loop that holds the interpreter.
"""
