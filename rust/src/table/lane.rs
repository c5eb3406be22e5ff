//! One column of a chunk of rows, on its way through the steps of a chain.

use super::failure::Failure;

/// A column as it is given.
#[derive(Clone, Copy)]
pub enum Column<'a> {
    /// Numbers; NaN is missing.
    Floats(&'a [f64]),
    /// The same in single precision.
    Singles(&'a [f32]),
    /// Whole numbers, and which are missing: none, if empty.
    Integers(&'a [i64], &'a [bool]),
    /// Text number i is `data[edges[i]..edges[i + 1]]`; which are missing: none, if empty.
    Texts {
        /// Where texts begin, and the end of the last.
        edges: &'a [i64],
        /// Their bytes.
        data: &'a [u8],
        /// Which are missing.
        missing: &'a [bool],
    },
}

impl Column<'_> {
    /// How many rows it has.
    #[must_use]
    pub const fn rows(&self) -> usize {
        match self {
            Self::Floats(values) => values.len(),
            Self::Singles(values) => values.len(),
            Self::Integers(values, _) => values.len(),
            Self::Texts { edges, .. } => edges.len().saturating_sub(1),
        }
    }

    /// Whether texts lie in their data, and flags are as many as rows.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        match self {
            Self::Floats(_) | Self::Singles(_) => true,
            Self::Integers(values, missing) => missing.is_empty() || missing.len() == values.len(),
            Self::Texts { edges, data, missing } => {
                let rows = edges.len().saturating_sub(1);
                edges.is_sorted()
                    && edges.first().is_some_and(|&first| first >= 0)
                    && edges.last().is_some_and(|&last| usize::try_from(last).is_ok_and(|last| last <= data.len()))
                    && (missing.is_empty() || missing.len() == rows)
            }
        }
    }

    /// The rows of a chunk.
    #[must_use]
    pub fn lane(&self, first: usize, rows: usize) -> Lane<'_> {
        let flags = |missing: &[bool]| {
            if missing.is_empty() { Vec::new() } else { missing[first..first + rows].to_vec() }
        };
        match self {
            Self::Floats(values) => Lane::Floats(values[first..first + rows].to_vec()),
            Self::Singles(values) => {
                Lane::Floats(values[first..first + rows].iter().map(|&value| f64::from(value)).collect())
            }
            Self::Integers(values, missing) => Lane::Integers(values[first..first + rows].to_vec(), flags(missing)),
            Self::Texts { edges, data, missing } => {
                Lane::Texts { edges: &edges[first..=first + rows], data, missing: flags(missing) }
            }
        }
    }
}

/// A chunk of a column.
pub enum Lane<'a> {
    /// Numbers; NaN is missing.
    Floats(Vec<f64>),
    /// Whole numbers, and which are missing: none, if empty.
    Integers(Vec<i64>, Vec<bool>),
    /// Texts, as of a column.
    Texts {
        /// Where texts begin, and the end of the last.
        edges: &'a [i64],
        /// Their bytes.
        data: &'a [u8],
        /// Which are missing.
        missing: Vec<bool>,
    },
    /// Several numbers a row, row after row.
    Vectors(Vec<f64>),
    /// Vectors of so many numbers, with 1 at a code and 0 elsewhere; codes below 0 are nowhere.
    Hot(Vec<i64>, usize),
}

impl Lane<'_> {
    /// The numbers; whole ones become floats.
    ///
    /// # Errors
    /// For text.
    pub fn into_floats(self) -> Result<Vec<f64>, Failure> {
        match self {
            Self::Floats(values) | Self::Vectors(values) => Ok(values),
            Self::Integers(values, missing) => Ok(as_floats(&values, &missing)),
            Self::Hot(codes, width) => {
                let mut vectors = vec![0.0; codes.len() * width];
                set_hot(&codes, width, width, 0, &mut vectors, 1.0);
                Ok(vectors)
            }
            Self::Texts { .. } => Err(Failure::misuse("a step on numbers gets text")),
        }
    }
}

/// Puts `one` where codes say, into rows of `stride` numbers, of which theirs begin at `offset`.
pub fn set_hot<T: Copy>(codes: &[i64], width: usize, stride: usize, offset: usize, out: &mut [T], one: T) {
    for (row, &code) in codes.iter().enumerate() {
        if let Ok(code) = usize::try_from(code)
            && code < width
        {
            out[row * stride + offset + code] = one;
        }
    }
}

/// Text number `row`.
#[must_use]
pub fn text<'a>(edges: &[i64], data: &'a [u8], row: usize) -> &'a [u8] {
    &data[edges[row] as usize..edges[row + 1] as usize]
}

fn as_floats(values: &[i64], missing: &[bool]) -> Vec<f64> {
    if missing.is_empty() {
        return values.iter().map(|&value| value as f64).collect();
    }
    values.iter().zip(missing).map(|(&value, &missing)| if missing { f64::NAN } else { value as f64 }).collect()
}
