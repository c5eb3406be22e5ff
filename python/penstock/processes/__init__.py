"""Work in processes of their own: users' functions, a whole loader, and the drop-in's batches.

    parent                                             child (a fresh interpreter)
    process   starts it, looks at it, ends it    ──►   child   takes the link; orphan ends it with the parent
    link      pickled messages  ◄── wire: a socket ──► link    the same program
    memory    regions that both map              ◄──►  memory
    raised    errors: how they travel            ◄──   raised

`polite` is for starts that nobody waits for. Three users say what their processes do: `calls` is what those of `workers="process"` run, `worker` is one of them,
`pool` keeps as many as there are CPUs to use, `functions` sends functions, and `auto` finds out whether they are faster than threads; `penstock.loader.child` is
`isolation="process"`; `penstock.torch.processes` are those of the DataLoader. Nothing here decides what a batch holds: a child calls the same `CallHere`
as a thread does, with the same keys.
"""
