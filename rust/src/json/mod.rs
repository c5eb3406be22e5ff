//! JSON lines to columns: one walk over each line that stores the wanted values and steps over the others.

pub mod fault;
pub mod number;
mod rows;
pub mod scan;
pub mod text;

use rayon::prelude::*;

use crate::columns::RowFailure;
use crate::example::element::Dtype;
use crate::example::{Filled, Records};
use rows::{Chunk, Gathered};

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

impl Column {
    fn row_bytes(&self) -> usize {
        match &self.target {
            Target::Fixed { dtype, shape } => shape.iter().product::<usize>() * dtype.size(),
            _ => 0,
        }
    }
}

/// A key, the columns that its value becomes, and the keys of the object that it may be.
#[derive(Debug, Default)]
struct Node {
    key: Vec<u8>,
    columns: Vec<usize>,
    children: Vec<Node>,
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
        Self { columns, root, values_limit }
    }

    /// The bytes of one row in each column's output.
    pub fn row_bytes(&self) -> impl Iterator<Item = usize> {
        self.columns.iter().map(Column::row_bytes)
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

    fn chunks<'a>(&self, rows: usize, chunk_rows: usize, outs: Vec<&'a mut [u8]>) -> Vec<Chunk<'a>> {
        let firsts = (0..rows).step_by(chunk_rows);
        let mut chunks: Vec<Chunk<'a>> =
            firsts.map(|first| Chunk { rows: first..(first + chunk_rows).min(rows), outs: Vec::new() }).collect();
        for (row_bytes, out) in self.row_bytes().zip(outs) {
            assert_eq!(out.len(), rows * row_bytes, "an output of another size than the rows");
            let mut rest = out;
            for chunk in &mut chunks {
                let (part, after) = rest.split_at_mut(chunk.rows.len() * row_bytes);
                chunk.outs.push(part);
                rest = after;
            }
        }
        chunks
    }
}

#[cfg(test)]
mod tests;
