//! What a step does to a lane.

use super::categories::Categories;
use super::codes::{Code, Table, codes, look_up, one_hot};
use super::dates::{Part, parts};
use super::failure::Failure;
use super::lane::{Lane, text};

/// One step of a chain.
pub enum Step {
    /// Texts become numbers.
    Parse,
    /// Texts become whole numbers.
    ParseInteger,
    /// Missing numbers become this one.
    Fill(f64),
    /// Missing whole numbers become this one.
    FillInteger(i64),
    /// Numbers without a fraction become whole ones.
    ToInteger,
    /// Numbers of float32 as float64 holds them.
    ToSingle,
    /// 1 where missing, else 0.
    IsMissing,
    /// x - c.
    Subtract(f64),
    /// x / c.
    Divide(f64),
    /// x · c.
    Multiply(f64),
    /// x + c.
    Add(f64),
    /// At least and at most.
    Clip(f64, f64),
    /// ln(x + c).
    Log(f64),
    /// Box and Cox's power.
    BoxCox(f64),
    /// Yeo and Johnson's power.
    YeoJohnson(f64),
    /// How many of these edges, which ascend, are not above x.
    Cut(Vec<f64>),
    /// The code of a category.
    Lookup {
        /// The categories.
        categories: Categories,
        /// The code of others.
        unknown: Code,
        /// The code of what is missing.
        missing: Code,
    },
    /// The numbers of a code.
    Table(Table),
    /// A vector with 1 at the code, all 0 for codes below 0.
    OneHot(usize),
    /// Parts of dates.
    Dates {
        /// Which.
        parts: Vec<Part>,
        /// How many units a day has.
        per_day: i64,
    },
}

type Done<'a> = Result<Lane<'a>, Failure>;

impl Step {
    /// What it makes of a lane. versions: of a table, which one counts for each row; none, if empty.
    ///
    /// # Errors
    /// For the first row that it cannot work on.
    pub fn apply<'a>(&self, lane: Lane<'a>, versions: &[i64]) -> Done<'a> {
        match self {
            Self::Parse => Ok(Lane::Floats(parse(&lane, f64::NAN, "no number", |text| text.parse().ok())?)),
            Self::ParseInteger => {
                let missing = flags(&lane);
                let whole = parse(&lane, 0, "no whole number of 64 bits", parse_integer)?;
                Ok(Lane::Integers(whole, if missing.contains(&true) { missing } else { Vec::new() }))
            }
            Self::FillInteger(value) => fill_integers(lane, *value),
            Self::ToInteger => to_integers(lane),
            Self::IsMissing => Ok(Lane::Integers(flags(&lane).into_iter().map(i64::from).collect(), Vec::new())),
            Self::Lookup { categories, unknown, missing } => look_up(&lane, categories, *unknown, *missing),
            Self::Table(table) => table.numbers(&lane, versions),
            Self::OneHot(width) => one_hot(&lane, *width),
            Self::Dates { parts, per_day } => date_parts(&lane, parts, *per_day),
            Self::Cut(edges) => cut(lane, edges),
            Self::Log(_) | Self::BoxCox(_) => self.positive(lane),
            _ => Ok(Lane::Floats(self.on_floats(lane.into_floats()?))),
        }
    }

    fn on_floats(&self, mut values: Vec<f64>) -> Vec<f64> {
        let each: &mut dyn FnMut(&mut [f64]) = &mut |all| match *self {
            Self::Fill(fill) => all.iter_mut().for_each(|x| *x = if x.is_nan() { fill } else { *x }),
            Self::ToSingle => all.iter_mut().for_each(|x| *x = f64::from(*x as f32)),
            Self::Subtract(c) => all.iter_mut().for_each(|x| *x -= c),
            Self::Divide(c) => all.iter_mut().for_each(|x| *x /= c),
            Self::Multiply(c) => all.iter_mut().for_each(|x| *x *= c),
            Self::Add(c) => all.iter_mut().for_each(|x| *x += c),
            Self::Clip(low, high) => all.iter_mut().for_each(|x| {
                *x = if *x < low {
                    low
                } else if *x > high {
                    high
                } else {
                    *x
                }
            }),
            Self::YeoJohnson(power) => all.iter_mut().for_each(|x| *x = yeo_johnson(*x, power)),
            _ => {}
        };
        each(&mut values);
        values
    }

    fn positive<'a>(&self, lane: Lane<'a>) -> Done<'a> {
        let mut values = lane.into_floats()?;
        let (shift, name) = if let Self::Log(shift) = self { (*shift, "Log") } else { (0.0, "Power('box-cox')") };
        for (row, x) in values.iter_mut().enumerate() {
            if *x + shift <= 0.0 {
                return Err(Failure::new(
                    row,
                    format!("is {x}, and {name} takes numbers above {}", 0.0 - shift),
                    "put Clip before it, or take Power('yeo-johnson'), which is defined for all numbers",
                ));
            }
            *x = match *self {
                Self::Log(1.0) => libm::log1p(*x),
                Self::BoxCox(power) => powered(libm::log(*x), power),
                _ => libm::log(*x + shift),
            };
        }
        Ok(Lane::Floats(values))
    }
}

/// (e^(power · log) - 1) / power, which is the logarithm itself at 0, and near it no difference of equal numbers.
fn powered(log: f64, power: f64) -> f64 {
    if power.abs() < f64::EPSILON { log } else { libm::expm1(power * log) / power }
}

/// Yeo and Johnson (2000).
#[must_use]
pub fn yeo_johnson(x: f64, power: f64) -> f64 {
    if x.is_nan() {
        x
    } else if x >= 0.0 {
        powered(libm::log1p(x), power)
    } else {
        -powered(libm::log1p(-x), 2.0 - power)
    }
}

/// Which rows are missing.
fn flags(lane: &Lane<'_>) -> Vec<bool> {
    let given = |missing: &Vec<bool>, rows: usize| if missing.is_empty() { vec![false; rows] } else { missing.clone() };
    match lane {
        Lane::Floats(values) | Lane::Vectors(values) => values.iter().map(|value| value.is_nan()).collect(),
        Lane::Integers(values, missing) => given(missing, values.len()),
        Lane::Texts { edges, missing, .. } => given(missing, edges.len() - 1),
        Lane::Hot(codes, _) => vec![false; codes.len()],
    }
}

/// The numbers that texts say. lost: stands for what is missing; what: texts that say none are not.
fn parse<T: Copy>(lane: &Lane<'_>, lost: T, what: &str, of: impl Fn(&str) -> Option<T>) -> Result<Vec<T>, Failure> {
    let Lane::Texts { edges, data, .. } = lane else {
        return Err(Failure::misuse("Parse gets no text"));
    };
    let number = |(row, missing): (usize, bool)| {
        if missing {
            return Ok(lost);
        }
        let text = String::from_utf8_lossy(text(edges, data, row));
        of(text.trim()).ok_or_else(|| {
            let found = format!("is {text:?}, which is {what}");
            Failure::new(row, found, "correct it, or leave such rows out with filter")
        })
    };
    flags(lane).into_iter().enumerate().map(number).collect()
}

/// "3", and "3.0" where float64 says exactly what is meant.
fn parse_integer(text: &str) -> Option<i64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let float = || text.parse::<f64>().ok().filter(|x| x.fract() == 0.0 && x.abs() <= EXACT);
    text.parse().ok().or_else(|| float().map(|x| x as i64))
}

fn fill_integers(lane: Lane<'_>, fill: i64) -> Done<'_> {
    let Lane::Integers(mut values, missing) = lane else {
        return Err(Failure::misuse("FillInteger gets no whole numbers"));
    };
    for (value, missing) in values.iter_mut().zip(missing) {
        if missing {
            *value = fill;
        }
    }
    Ok(Lane::Integers(values, Vec::new()))
}

fn to_integers(lane: Lane<'_>) -> Done<'_> {
    if matches!(lane, Lane::Integers(..)) {
        return Ok(lane);
    }
    const END: f64 = 9_223_372_036_854_775_808.0;
    let values = lane.into_floats()?;
    let missing: Vec<bool> = values.iter().map(|value| value.is_nan()).collect();
    if let Some(row) = values.iter().position(|x| !x.is_nan() && (x.fract() != 0.0 || *x < -END || *x >= END)) {
        return Err(Failure::new(
            row,
            format!("is {}, which is no whole number of 64 bits", values[row]),
            "cast to 'float64', or correct it",
        ));
    }
    let whole = values.iter().map(|&x| x as i64).collect();
    Ok(Lane::Integers(whole, if missing.contains(&true) { missing } else { Vec::new() }))
}

fn cut<'a>(lane: Lane<'a>, edges: &[f64]) -> Done<'a> {
    let values = lane.into_floats()?;
    let missing: Vec<bool> = values.iter().map(|value| value.is_nan()).collect();
    let bins = values.iter().map(|x| edges.partition_point(|edge| edge <= x) as i64).collect();
    Ok(Lane::Integers(bins, if missing.contains(&true) { missing } else { Vec::new() }))
}

fn date_parts<'a>(lane: &Lane<'_>, wanted: &[Part], per_day: i64) -> Done<'a> {
    let (numbers, missing) = codes(lane)?;
    let mut found = Vec::with_capacity(numbers.len() * wanted.len());
    for (row, &number) in numbers.iter().enumerate() {
        if missing.get(row).is_some_and(|&is| is) {
            found.extend(wanted.iter().map(|_| f64::NAN));
            continue;
        }
        let Some(date) = parts(number, per_day) else {
            return Err(Failure::new(
                row,
                format!("is {number}, a date beyond the years 1 to 9999"),
                "say what its numbers count: DateParts(…, unit='s'), 'ms', 'us', 'ns' or 'D'",
            ));
        };
        found.extend(wanted.iter().map(|&part| date.part(part) as f64));
    }
    Ok(Lane::Vectors(found))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floats(step: &Step, values: &[f64]) -> Vec<f64> {
        step.apply(Lane::Floats(values.to_vec()), &[]).ok().unwrap().into_floats().ok().unwrap()
    }

    #[test]
    fn steps_on_numbers() {
        assert_eq!(floats(&Step::Fill(2.0), &[1.0, f64::NAN]), [1.0, 2.0]);
        assert_eq!(floats(&Step::Clip(0.0, 1.0), &[-1.0, 0.5, 3.0]), [0.0, 0.5, 1.0]);
        assert_eq!(floats(&Step::Cut(vec![1.0, 2.0]), &[0.0, 1.0, 5.0]), [0.0, 1.0, 2.0]);
        assert!(Step::Log(0.0).apply(Lane::Floats(vec![1.0, 0.0]), &[]).is_err_and(|failure| failure.row == 1));
        assert!(Step::ToInteger.apply(Lane::Floats(vec![1.5]), &[]).is_err());
        assert_eq!(parse_integer("9007199254740993"), Some(9_007_199_254_740_993));
        assert_eq!((parse_integer("-2.0"), parse_integer("1.5"), parse_integer("")), (Some(-2), None, None));
    }

    #[test]
    fn categories_have_codes() {
        let step = Step::Lookup {
            categories: Categories::of_texts([b"a".as_slice(), b"bc"].into_iter()),
            unknown: Code::Is(-1),
            missing: Code::Missing,
        };
        let lane = Lane::Texts { edges: &[0, 2, 3, 3], data: b"bcx", missing: vec![false, false, true] };
        let made = step.apply(lane, &[]).ok().unwrap().into_floats().ok().unwrap();
        assert_eq!(made[..2], [1.0, -1.0]);
        assert!(made[2].is_nan());
        let vectors = Step::OneHot(2).apply(Lane::Integers(vec![1, -1], vec![]), &[]).ok().unwrap();
        assert_eq!(vectors.into_floats().ok().unwrap(), [0.0, 1.0, 0.0, 0.0]);
    }
}
