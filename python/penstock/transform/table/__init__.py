"""Table ops: `ps.table.Recipe(ps.table.Standardize(), city=ps.table.OneHot()).fit(train)`.

Three layers: `statistics/` add up over blocks of the data, exactly; ops say what they take, learn and do (`op` is what one is; `missing`, `scaling`, `curves`, `bins`, `categories`, `dates`,
`interactions`, `cast` have them); `recipe` and `fitted` bring both together: `resolving` says which op goes to which column, `fitting` makes passes, `program` makes native programs of chains,
`family` is the door for the engine, `serving` does one row, and `saving` writes JSON.
"""

from penstock.transform.table.bins import Bins
from penstock.transform.table.cast import Cast
from penstock.transform.table.categories import Frequency, Hash, OneHot, Ordinal, Vocabulary
from penstock.transform.table.curves import Log, Power
from penstock.transform.table.dates import DateParts
from penstock.transform.table.fitted import FittedRecipe, Partial, load, load_partial, merge
from penstock.transform.table.interactions import Interactions
from penstock.transform.table.missing import DropMissing, FillMissing, IsMissing
from penstock.transform.table.recipe import Recipe
from penstock.transform.table.scaling import Clip, MinMax, Robust, Standardize
from penstock.transform.table.selectors import On, Selector
from penstock.transform.table.target import Target

__all__ = [
    "Bins",
    "Cast",
    "Clip",
    "DateParts",
    "DropMissing",
    "FillMissing",
    "FittedRecipe",
    "Frequency",
    "Hash",
    "Interactions",
    "IsMissing",
    "Log",
    "MinMax",
    "On",
    "OneHot",
    "Ordinal",
    "Partial",
    "Power",
    "Recipe",
    "Robust",
    "Selector",
    "Standardize",
    "Target",
    "Vocabulary",
    "load",
    "load_partial",
    "merge",
]
