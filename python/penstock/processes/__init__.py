"""Users' functions in processes of their own: `map(function, workers="process")`.

`pool` keeps as many processes as there are CPUs to use; a thread of the stage hands an item to one that is free. `process` starts and ends
one, `child` is what runs in it, `link` is how the two talk, `memory` is what they share. `functions` sends functions. Nothing here
decides what a batch holds: a child calls the same `CallHere` as a thread does, with the same keys.
"""
