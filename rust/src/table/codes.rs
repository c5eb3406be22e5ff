//! Values and their codes: looked up, hashed, and what codes become.

use super::categories::{Categories, float_bits, hash_integer, hash_text};
use super::failure::Failure;
use super::lane::{Lane, text};

type Done<'a> = Result<Lane<'a>, Failure>;

/// What becomes of a value that has no code: another code, nothing, or an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// This one.
    Is(i64),
    /// It is missing afterwards.
    Missing,
    /// It is an error.
    Refused,
    /// The bucket that it falls into, of so many from `first` on.
    Hashed {
        /// The code of bucket 0.
        first: i64,
        /// How many.
        buckets: u64,
    },
}

/// What a value is to categories and buckets.
enum Key<'a> {
    Text(&'a [u8]),
    Number(i64),
}

/// The keys of a lane; None for what is missing.
fn keys<'a>(lane: &'a Lane<'_>) -> Box<dyn Iterator<Item = Option<Key<'a>>> + 'a> {
    match lane {
        Lane::Floats(values) | Lane::Vectors(values) => {
            Box::new(values.iter().map(|&x| (!x.is_nan()).then(|| Key::Number(float_bits(x)))))
        }
        Lane::Integers(values, missing) => Box::new(
            values
                .iter()
                .enumerate()
                .map(|(row, &x)| (!missing.get(row).is_some_and(|&is| is)).then_some(Key::Number(x))),
        ),
        Lane::Texts { edges, data, missing } => Box::new(
            (0..edges.len() - 1)
                .map(|row| (!missing.get(row).is_some_and(|&is| is)).then(|| Key::Text(text(edges, data, row)))),
        ),
        Lane::Hot(codes, _) => Box::new(codes.iter().map(|&code| Some(Key::Number(code)))),
    }
}

/// Codes of rows; `of` says the code of a key.
fn coded<'a>(lane: &Lane<'_>, missing: Code, mut of: impl FnMut(&Key<'_>) -> Code) -> Done<'a> {
    let rows = match lane {
        Lane::Floats(values) | Lane::Vectors(values) => values.len(),
        Lane::Integers(values, _) | Lane::Hot(values, _) => values.len(),
        Lane::Texts { edges, .. } => edges.len() - 1,
    };
    let (mut codes, mut gone) = (Vec::with_capacity(rows), Vec::new());
    for (row, key) in keys(lane).enumerate() {
        match key.as_ref().map_or(missing, &mut of) {
            Code::Is(code) => codes.push(code),
            Code::Hashed { first, buckets } => codes.push(first + key.as_ref().map_or(0, |key| bucket(key, buckets))),
            Code::Missing => {
                gone.resize(rows, false);
                gone[row] = true;
                codes.push(0);
            }
            Code::Refused => return Err(refused(row, lane, key.as_ref())),
        }
    }
    Ok(Lane::Integers(codes, gone))
}

#[expect(clippy::cast_possible_wrap, reason = "there are at most 2^62 buckets")]
fn bucket(key: &Key<'_>, buckets: u64) -> i64 {
    let hash = match key {
        Key::Text(text) => hash_text(text),
        Key::Number(number) => hash_integer(*number),
    };
    (hash % buckets) as i64
}

fn refused(row: usize, lane: &Lane<'_>, key: Option<&Key<'_>>) -> Failure {
    let found = match (key, lane) {
        (None, _) => {
            return Failure::new(
                row,
                "is missing, and was in no row that the recipe was fitted on",
                "put FillMissing before it, or choose handle_unknown='ignore'",
            );
        }
        (Some(Key::Text(text)), _) => format!("{:?}", String::from_utf8_lossy(text)),
        (_, Lane::Floats(values)) => values[row].to_string(),
        (Some(Key::Number(number)), _) => number.to_string(),
    };
    Failure::new(
        row,
        format!("is {found}, a category in no row that the recipe was fitted on"),
        "fit the recipe on data that has it, or choose handle_unknown='ignore'",
    )
}

pub(super) fn look_up<'a>(lane: &Lane<'_>, categories: &Categories, unknown: Code, missing: Code) -> Done<'a> {
    coded(lane, missing, |key| {
        let found = match (key, categories) {
            (Key::Text(text), Categories::Texts(table)) => table.get(*text),
            (Key::Number(number), Categories::Integers(table)) => table.get(number),
            _ => None,
        };
        found.map_or(unknown, |&code| Code::Is(code))
    })
}

pub(super) fn codes<'l>(lane: &'l Lane<'_>) -> Result<(&'l [i64], &'l [bool]), Failure> {
    let Lane::Integers(codes, missing) = lane else {
        return Err(Failure::misuse("a step on codes gets none"));
    };
    Ok((codes, missing))
}

pub(super) fn from_table<'a>(lane: &Lane<'_>, values: &[f64]) -> Done<'a> {
    let (codes, missing) = codes(lane)?;
    let last = values.last().copied().unwrap_or(f64::NAN);
    let number = |(row, &code): (usize, &i64)| {
        if missing.get(row).is_some_and(|&is| is) {
            f64::NAN
        } else {
            usize::try_from(code).ok().and_then(|code| values.get(code)).copied().unwrap_or(last)
        }
    };
    Ok(Lane::Floats(codes.iter().enumerate().map(number).collect()))
}

pub(super) fn one_hot<'a>(lane: &Lane<'_>, width: usize) -> Done<'a> {
    let (codes, missing) = codes(lane)?;
    let gone = |row: usize| missing.get(row).is_some_and(|&is| is);
    Ok(Lane::Hot(codes.iter().enumerate().map(|(row, &code)| if gone(row) { -1 } else { code }).collect(), width))
}
