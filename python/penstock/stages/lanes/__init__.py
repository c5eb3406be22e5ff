"""Lane stages: what gives more or fewer rows than it gets, by what the data says.

A filter by a function, `flat_map`, packing. A plan is cut at each of them (`cut`): what is below runs as stages of its own (`feed`), by demand:
rows of those lanes that have fewest left. The stage itself (`stages`) is a function of neighbouring rows of a lane. What comes out is, for all that is
above, a source whose rows are reached lane by lane (`reader`).

A lane's state is small: the first row of its input that still matters, how many of the rows that come of it are used, and the stage's own numbers
(`states`). It belongs to the lane, so that any number of ranks can go on with it.
"""
