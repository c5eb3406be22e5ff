//! Batches of serialised `tf.train.Example`s to columns: a bounded walk over the wire bytes of each record that allocates
//! nothing, all rows in parallel, numbers stored straight into the batch.

pub mod element;
pub mod fault;
pub mod feature;
pub mod infer;
pub mod names;
mod rows;
pub mod values;
pub mod wire;

use rayon::prelude::*;

use element::Dtype;
use fault::RowFailure;
use names::Names;
use rows::{Chunk, Gathered};

/// What a feature becomes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// So many numbers in each row, stored in the output that the caller gives.
    Fixed {
        /// Their type.
        dtype: Dtype,
        /// How many.
        values: usize,
    },
    /// Any number of numbers that is a multiple of `step`.
    Ragged {
        /// Their type.
        dtype: Dtype,
        /// Values that belong together; at least 1.
        step: usize,
    },
    /// One value of bytes, not copied.
    Spans,
    /// Values of bytes, copied one behind the other.
    Texts {
        /// How many in each row; None takes any number.
        values: Option<usize>,
        /// Whether each must be UTF-8.
        text: bool,
    },
}

/// One wanted column.
#[derive(Debug, Clone)]
pub struct Column {
    /// Which of the parser's features it is made of.
    pub feature: usize,
    /// What it becomes.
    pub target: Target,
    /// How an error describes what is expected: "float32(32)".
    pub expected: String,
    /// The bytes of a row that lacks the feature: a whole row for `Fixed`, one value for `Spans` and `Texts`.
    pub default: Option<Vec<u8>>,
}

/// Records as places in buffers, their frames included.
#[derive(Debug, Clone, Copy)]
pub struct Records<'a> {
    /// The buffers.
    pub buffers: &'a [&'a [u8]],
    /// The buffer of each record.
    pub which: &'a [i64],
    /// Where each begins in its buffer.
    pub offset: &'a [i64],
    /// How many bytes it has.
    pub length: &'a [i64],
}

/// What a column became; numbers are in the machine's byte order.
#[derive(Debug, PartialEq, Eq)]
pub enum Filled {
    /// The output that was given.
    Fixed,
    /// Places in the records' buffers; `which` is -1 (and `offset` 0) where the default takes the feature's place.
    Spans {
        /// The buffer of each row.
        which: Vec<i64>,
        /// Where its value begins.
        offset: Vec<i64>,
        /// How many bytes it has.
        length: Vec<i64>,
    },
    /// Numbers of all rows; row i has those from `offsets[i]` to `offsets[i + 1]`.
    Ragged {
        /// The numbers' bytes.
        values: Vec<u8>,
        /// One more than rows.
        offsets: Vec<i64>,
    },
    /// Bytes of all rows: value j is `data[ends[j]..ends[j + 1]]`, row i has the values `offsets[i]..offsets[i + 1]`.
    Texts {
        /// The bytes.
        data: Vec<u8>,
        /// One more than values.
        ends: Vec<i64>,
        /// One more than rows.
        offsets: Vec<i64>,
    },
}

/// Makes columns of records; made once, used for every batch.
#[derive(Debug)]
pub struct Parser {
    features: Vec<String>,
    names: Names,
    columns: Vec<Column>,
    verify: bool,
    values_limit: usize,
}

impl Parser {
    /// `features` are different names; `columns` refer to them. `verify` checks each record's data against its checksum.
    /// `values_limit` bounds the values of one feature in one record.
    #[must_use]
    pub fn new(features: Vec<String>, columns: Vec<Column>, verify: bool, values_limit: usize) -> Self {
        let names = Names::new(features.iter().map(String::as_str));
        Self { features, names, columns, verify, values_limit }
    }

    /// The columns in their order.
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Parses all records on `pool` (None: on this thread). `outs` has one slice a column: rows · values · size bytes for
    /// `Fixed`, empty for the others.
    ///
    /// # Errors
    /// Of all rows that failed, the first; the same whatever the number of threads.
    ///
    /// # Panics
    /// If the arrays of `records` or the slices of `outs` do not have the lengths that they should.
    pub fn parse(
        &self,
        records: Records<'_>,
        outs: Vec<&mut [u8]>,
        pool: Option<&rayon::ThreadPool>,
    ) -> Result<Vec<Filled>, RowFailure> {
        let rows = records.which.len();
        assert!(records.offset.len() == rows && records.length.len() == rows, "spans of different lengths");
        assert_eq!(outs.len(), self.columns.len(), "one output a column");
        let chunk_rows = pool.map_or(rows, |pool| rows.div_ceil(4 * pool.current_num_threads()).clamp(32, 1024)).max(1);
        let chunks = self.chunks(rows, chunk_rows, outs);
        let parts: Vec<Result<Vec<Gathered>, RowFailure>> = match pool {
            Some(pool) if chunks.len() > 1 => {
                pool.install(|| chunks.into_par_iter().map(|chunk| chunk.parse(self, records)).collect())
            }
            _ => chunks.into_iter().map(|chunk| chunk.parse(self, records)).collect(),
        };
        Ok(rows::join(parts.into_iter().collect::<Result<Vec<_>, _>>()?, &self.columns))
    }

    /// Cuts rows and outputs into chunks.
    fn chunks<'a>(&self, rows: usize, chunk_rows: usize, outs: Vec<&'a mut [u8]>) -> Vec<Chunk<'a>> {
        let mut chunks: Vec<Chunk<'a>> = (0..rows)
            .step_by(chunk_rows)
            .map(|first| Chunk::new(first..(first + chunk_rows).min(rows), outs.len()))
            .collect();
        for (column, out) in self.columns.iter().zip(outs) {
            let row_bytes = match column.target {
                Target::Fixed { dtype, values } => values * dtype.size(),
                _ => 0,
            };
            assert_eq!(out.len(), rows * row_bytes, "an output of another size than the rows");
            let mut rest = out;
            for chunk in &mut chunks {
                let (part, after) = rest.split_at_mut(chunk.len() * row_bytes);
                chunk.push(part);
                rest = after;
            }
        }
        chunks
    }
}
