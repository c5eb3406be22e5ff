//! JSON lines to columns: one walk over each line that stores the wanted values and steps over the others.

pub mod fault;
pub mod number;
mod rows;
pub mod scan;
pub mod text;

use crate::core::columns::{Filled, Form, Records, fill};
use crate::core::dtype::Dtype;
use crate::core::errors::RowFailure;

/// What a value becomes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// Numbers (or true and false) in lists of just these lengths, none for one number; stored in the caller's output.
    Fixed {
        /// Their type.
        dtype: Dtype,
        /// The length of the list, of the lists in it, and so on.
        shape: Vec<usize>,
    },
    /// A list of any length of what `Fixed` would be.
    Ragged {
        /// The type of the numbers.
        dtype: Dtype,
        /// As for `Fixed`.
        shape: Vec<usize>,
    },
    /// One string.
    Text,
    /// A list of strings; None takes any length.
    Texts {
        /// How many.
        values: Option<usize>,
    },
    /// Any value, as its JSON stands.
    Raw,
}

impl Target {
    /// The form of the column; a text is one value a row, and its rows need no count.
    fn form(&self) -> Form {
        match self {
            Self::Fixed { dtype, shape } => Form::Fixed { row_bytes: shape.iter().product::<usize>() * dtype.size() },
            Self::Ragged { .. } => Form::Ragged,
            Self::Text | Self::Texts { .. } | Self::Raw => Form::Texts,
        }
    }
}

/// One wanted column.
#[derive(Debug, Clone)]
pub struct Column {
    /// The keys that lead to it, of objects in objects.
    pub path: Vec<String>,
    /// What it becomes.
    pub target: Target,
    /// How an error describes what is expected: "float32(32)".
    pub expected: String,
    /// The bytes of a row that lacks the key or has null: a whole row for `Fixed`, the text for `Text` and `Raw`. Lists of any
    /// length are empty then.
    pub default: Option<Vec<u8>>,
}

/// A key, the columns that its value becomes, and the keys of the object that it may be.
#[derive(Debug, Default)]
struct Node {
    key: Vec<u8>,
    columns: Vec<usize>,
    children: Vec<Node>,
    /// Its number among those with children.
    object: usize,
}

impl Node {
    fn add(&mut self, path: &[String], column: usize) {
        let Some((key, rest)) = path.split_first() else {
            self.columns.push(column);
            return;
        };
        let known = self.children.iter().position(|child| child.key == key.as_bytes());
        let place = known.unwrap_or_else(|| {
            self.children.push(Self { key: key.clone().into_bytes(), ..Self::default() });
            self.children.len() - 1
        });
        self.children[place].add(rest, column);
    }

    /// Numbers those with children from `next` on; gives the number after the last.
    fn number_objects(&mut self, next: usize) -> usize {
        if self.children.is_empty() {
            return next;
        }
        self.object = next;
        self.children.iter_mut().fold(next + 1, |next, child| child.number_objects(next))
    }

    /// A column that it leads to.
    fn first_column(&self) -> Option<usize> {
        self.columns.first().copied().or_else(|| self.children.iter().find_map(Self::first_column))
    }

    /// The child of a key, looked for from `next` on: keys mostly come in the same order.
    #[inline]
    fn find(&self, key: &[u8], next: &mut usize) -> Option<&Self> {
        let (before, after) = self.children.split_at((*next).min(self.children.len()));
        let place = match after.iter().position(|child| child.key == key) {
            Some(place) => before.len() + place,
            None => before.iter().position(|child| child.key == key)?,
        };
        *next = place + 1;
        Some(&self.children[place])
    }
}

/// Makes columns of lines; made once, used for every batch.
#[derive(Debug)]
pub struct Parser {
    columns: Vec<Column>,
    root: Node,
    objects: usize,
    values_limit: usize,
}

impl Parser {
    /// `values_limit` bounds the values of one list.
    #[must_use]
    pub fn new(columns: Vec<Column>, values_limit: usize) -> Self {
        let mut root = Node::default();
        for (number, column) in columns.iter().enumerate() {
            root.add(&column.path, number);
        }
        let objects = root.number_objects(0);
        Self { columns, root, objects, values_limit }
    }

    /// The bytes of one row in each column's output.
    pub fn row_bytes(&self) -> impl Iterator<Item = usize> {
        self.columns.iter().map(|column| column.target.form().row_bytes())
    }

    /// Parses all lines on `pool` (None: on this thread). `outs` has one slice a column: the bytes of all rows for `Fixed`,
    /// empty for the others.
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

#[cfg(test)]
mod tests;
