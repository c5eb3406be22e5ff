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
    Float(f64),
}

/// Codes of so many rows, of which `of` says each; `key` says what a row that is refused or hashed holds.
fn coded<'a>(rows: usize, of: impl Fn(usize) -> Code, key: &dyn Fn(usize) -> Option<Key<'a>>) -> Done<'static> {
    let (mut codes, mut gone) = (vec![0; rows], Vec::new());
    for (row, out) in codes.iter_mut().enumerate() {
        match of(row) {
            Code::Is(code) => *out = code,
            Code::Hashed { first, buckets } => *out = first + key(row).map_or(0, |key| bucket(&key, buckets)),
            Code::Missing => {
                gone.resize(rows, false);
                gone[row] = true;
            }
            Code::Refused => return Err(refused(row, key(row).as_ref())),
        }
    }
    Ok(Lane::Integers(codes, gone))
}

fn bucket(key: &Key<'_>, buckets: u64) -> i64 {
    let hash = match key {
        Key::Text(text) => hash_text(text),
        Key::Number(number) => hash_integer(*number),
        Key::Float(number) => hash_integer(float_bits(*number)),
    };
    (hash % buckets) as i64
}

fn refused(row: usize, key: Option<&Key<'_>>) -> Failure {
    let found = match key {
        None => {
            return Failure::new(
                row,
                "is missing, and was in no row that the recipe was fitted on",
                "put FillMissing before it, or choose handle_unknown='ignore'",
            );
        }
        Some(Key::Text(text)) => format!("{:?}", String::from_utf8_lossy(text)),
        Some(Key::Number(number)) => number.to_string(),
        Some(Key::Float(number)) => number.to_string(),
    };
    Failure::new(
        row,
        format!("is {found}, a category in no row that the recipe was fitted on"),
        "fit the recipe on data that has it, or choose handle_unknown='ignore'",
    )
}

pub(super) fn look_up<'a>(lane: &Lane<'_>, categories: &Categories, unknown: Code, missing: Code) -> Done<'a> {
    let known = |code: Option<&i64>| code.map_or(unknown, |&code| Code::Is(code));
    match (lane, categories) {
        (Lane::Texts { edges, data, missing: gone }, Categories::Texts(table)) => {
            let is_gone = |row: usize| gone.get(row).is_some_and(|&is| is);
            coded(
                edges.len() - 1,
                |row| if is_gone(row) { missing } else { known(table.get(text(edges, data, row))) },
                &|row| (!is_gone(row)).then(|| Key::Text(text(edges, data, row))),
            )
        }
        (Lane::Integers(values, gone), Categories::Integers(table)) => {
            let is_gone = |row: usize| gone.get(row).is_some_and(|&is| is);
            coded(values.len(), |row| if is_gone(row) { missing } else { known(table.get(&values[row])) }, &|row| {
                (!is_gone(row)).then(|| Key::Number(values[row]))
            })
        }
        (Lane::Floats(values) | Lane::Vectors(values), Categories::Integers(table)) => coded(
            values.len(),
            |row| if values[row].is_nan() { missing } else { known(table.get(&float_bits(values[row]))) },
            &|row| (!values[row].is_nan()).then(|| Key::Float(values[row])),
        ),
        _ => Err(Failure::misuse("a step on categories gets values of another kind")),
    }
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
