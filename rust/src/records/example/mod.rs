//! Batches of serialised `tf.train.Example`s and `SequenceExample`s to columns: a bounded walk over the wire bytes of each record that allocates
//! nothing, all rows in parallel, numbers stored straight into the batch.

pub mod element;
pub mod fault;
pub mod feature;
pub mod infer;
pub mod kind;
pub mod names;
mod rows;
mod steps;
pub mod values;
pub mod wire;

use names::Names;

pub use crate::core::columns::{Filled, Records};
use crate::core::columns::{Form, fill};
use crate::core::dtype::Dtype;
use crate::core::errors::RowFailure;

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
    /// Of a list of features: so many numbers in each step.
    Steps {
        /// Their type.
        dtype: Dtype,
        /// How many.
        values: usize,
    },
    /// Of a list of features: one value of bytes in each step.
    StepTexts {
        /// Whether each must be UTF-8.
        text: bool,
    },
    /// Of a list of features: any number of numbers in each step.
    Nested {
        /// Their type.
        dtype: Dtype,
    },
    /// Of a list of features: any number of values of bytes in each step.
    NestedTexts {
        /// Whether each must be UTF-8.
        text: bool,
    },
}

impl Target {
    /// The form that the column takes.
    #[must_use]
    pub const fn form(&self) -> Form {
        match *self {
            Self::Fixed { dtype, values } => Form::Fixed { row_bytes: values * dtype.size() },
            Self::Ragged { .. } | Self::Steps { .. } => Form::Ragged,
            Self::Spans => Form::Spans,
            Self::Texts { .. } | Self::StepTexts { .. } => Form::Texts,
            Self::Nested { .. } | Self::NestedTexts { .. } => Form::Nested,
        }
    }
}

/// One wanted column.
#[derive(Debug, Clone)]
pub struct Column {
    /// Which of the parser's features it is made of; the lists of features follow the plain ones.
    pub feature: usize,
    /// What it becomes.
    pub target: Target,
    /// How an error describes what is expected: "float32(32)".
    pub expected: String,
    /// The bytes of a row that lacks the feature: a whole row for `Fixed`, one value for `Spans` and `Texts`.
    pub default: Option<Vec<u8>>,
}

/// Makes columns of records; made once, used for every batch.
#[derive(Debug)]
pub struct Parser {
    /// The names of plain features, then of lists of features.
    features: Vec<String>,
    plain: Names,
    lists: Names,
    columns: Vec<Column>,
    verify: bool,
    values_limit: usize,
}

impl Parser {
    /// `plain` and `lists` are different names each; `columns` refer to them. `verify` checks each record's data against its checksum.
    /// `values_limit` bounds the values of one feature in one record.
    #[must_use]
    pub fn new(
        plain: Vec<String>,
        lists: Vec<String>,
        columns: Vec<Column>,
        verify: bool,
        values_limit: usize,
    ) -> Self {
        let names = |texts: &[String]| Names::new(texts.iter().map(String::as_str));
        let (plain_names, list_names) = (names(&plain), names(&lists));
        let features = [plain, lists].concat();
        Self { features, plain: plain_names, lists: list_names, columns, verify, values_limit }
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
        let forms: Vec<Form> = self.columns.iter().map(|column| column.target.form()).collect();
        fill(rows, &forms, outs, pool, |chunk| rows::parse(self, records, chunk))
    }
}
