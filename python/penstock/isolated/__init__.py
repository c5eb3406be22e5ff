"""How a loader and the child process that makes its items talk: `Loader(isolation="process")`.

`process` is the child as the parent sees it, `child` what runs in it, `messages` is what the two say, and `sent` tells what cannot be sent there; the
rest is `penstock.processes`. Who asks is `loader.in_child`, who answers `loader.maker`.
"""
