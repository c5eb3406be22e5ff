"""The child process of `Loader(isolation="process")`, in which a whole pipeline runs.

`process` is the child as the parent (`loader.in_child`) sees it, `serve` what runs in it, with a `maker` of items; `messages` is what the two say, and
`sent` tells what cannot be sent there. How messages travel is `penstock.processes`.
"""
