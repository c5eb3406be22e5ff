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

/// Numbers of codes, in several versions: `width` numbers a code, then those of codes that there are not; then the next version.
pub struct Table {
    values: Vec<f64>,
    codes: usize,
    width: usize,
}

impl Table {
    /// None where there are not as many values as whole versions have.
    #[must_use]
    pub fn new(values: Vec<f64>, codes: usize, width: usize) -> Option<Self> {
        let numbers = codes.checked_add(1)?.checked_mul(width)?;
        let is_whole = numbers > 0 && !values.is_empty() && values.len().is_multiple_of(numbers);
        is_whole.then_some(Self { values, codes, width })
    }

    /// The numbers of each row's code; NaN where that is missing. versions: of each row, version 0 if empty.
    pub(super) fn numbers<'a>(&self, lane: &Lane<'_>, versions: &[i64]) -> Done<'a> {
        let (codes, missing) = codes(lane)?;
        let numbers = (self.codes + 1) * self.width;
        let mut found = Vec::with_capacity(codes.len() * self.width);
        for (row, &code) in codes.iter().enumerate() {
            if missing.get(row).is_some_and(|&is| is) {
                found.extend((0..self.width).map(|_| f64::NAN));
                continue;
            }
            let version = usize::try_from(versions.get(row).copied().unwrap_or(0)).unwrap_or(usize::MAX);
            let code = usize::try_from(code).map_or(self.codes, |code| code.min(self.codes));
            let first = version.saturating_mul(numbers).saturating_add(code * self.width);
            let Some(values) = self.values.get(first..first.saturating_add(self.width)) else {
                return Err(Failure::misuse("a table has no such version"));
            };
            found.extend_from_slice(values);
        }
        Ok(if self.width == 1 { Lane::Floats(found) } else { Lane::Vectors(found) })
    }
}

pub(super) fn one_hot<'a>(lane: &Lane<'_>, width: usize) -> Done<'a> {
    let (codes, missing) = codes(lane)?;
    let gone = |row: usize| missing.get(row).is_some_and(|&is| is);
    Ok(Lane::Hot(codes.iter().enumerate().map(|(row, &code)| if gone(row) { -1 } else { code }).collect(), width))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_have_versions() {
        assert!(Table::new(vec![0.0; 5], 2, 1).is_none() && Table::new(vec![], 0, 1).is_none());
        let table = Table::new((0..12).map(f64::from).collect(), 2, 2).unwrap();
        let lane = Lane::Integers(vec![0, 1, -1, 7], vec![]);
        let numbers = |versions: &[i64]| table.numbers(&lane, versions).ok().unwrap().into_floats().ok().unwrap();
        assert_eq!(numbers(&[]), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 4.0, 5.0]);
        assert_eq!(numbers(&[1, 0, 1, 0]), [6.0, 7.0, 2.0, 3.0, 10.0, 11.0, 4.0, 5.0]);
        assert!(table.numbers(&lane, &[2, 0, 0, 0]).is_err() && table.numbers(&lane, &[-1, 0, 0, 0]).is_err());
    }
}
