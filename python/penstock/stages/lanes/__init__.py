"""Lane stages: what gives more or fewer rows than it gets, by what the data says.

A filter by a function, `flat_map`, packing. How many rows come out is known once they were read, so that no step can say which rows it reads. A plan is cut
at each of these stages (`resolve.cut`), and every lane runs through it at its own pace:

    plan      read → shuffle → filter(f) → batch

    below     read → shuffle          a run of its own, by demand: rows of those lanes that have fewest left (`asking`)
                        │ Columned
    stage               filter(f)     a pure function of neighbouring rows of a lane (`stages`), fed by `feeder`
                        │ LaneItem
    above     LaneOutput → batch      a leaf whose rows are numbered lane by lane (`reader`), and wait in `made_rows` until they are taken

Where an epoch ends with its data, `ending_feed` finds out where its lanes end (`lane_ends`), and `natural_steps` makes steps of what they give.

`feed` joins the three, and finds out which row an error belongs to (`smaller_pieces`); `all_feeds` are all of a plan, at a step.

A lane's state is small: the first row of its input that is still needed, how many of the rows that come of it are used, and the stage's own numbers
(`states`). It belongs to the lane, so that any number of ranks can continue with it.
"""
