//! Chains of steps, and the arrays that they fill.

use rayon::ThreadPool;

use super::failure::Failure;
use super::lane::{Column, Lane, set_hot};
use super::steps::Step;
use crate::core::errors::RowFailure;
use crate::core::pool::find_first;

/// Rows that go through all chains together: what they are on the way stays in the cache.
pub const CHUNK: usize = 1024;

/// A chain, from one column, or several of numbers that are multiplied, to a place in the rows of an array.
pub struct Chain {
    /// The name of what it makes, for messages.
    pub name: String,
    /// Its columns; behind the one of a chain on one column, perhaps that which says which version of a table counts.
    pub inputs: Vec<usize>,
    /// Which of these are multiplied, a pair a number; empty for a chain on one column.
    pub pairs: Vec<(usize, usize)>,
    /// What is done to it.
    pub steps: Vec<Step>,
    /// The array that it fills.
    pub array: usize,
    /// Where its numbers begin in a row of that.
    pub offset: usize,
    /// How many they are.
    pub width: usize,
}

/// Chains that run together. An array's row has so many numbers as its chains make.
pub struct Program {
    /// The chains.
    pub chains: Vec<Chain>,
    /// Numbers in a row of each array.
    pub widths: Vec<usize>,
}

/// An array that is filled, row after row.
pub enum Array<'a> {
    /// float64.
    Floats(&'a mut [f64]),
    /// float32.
    Singles(&'a mut [f32]),
    /// int64.
    Integers(&'a mut [i64]),
    /// Truth values.
    Flags(&'a mut [bool]),
}

impl<'a> Array<'a> {
    /// How many numbers it has room for.
    #[must_use]
    pub const fn len(&self) -> usize {
        match self {
            Self::Floats(out) => out.len(),
            Self::Singles(out) => out.len(),
            Self::Integers(out) => out.len(),
            Self::Flags(out) => out.len(),
        }
    }

    /// Whether it has room for none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn chunks(self, numbers: usize) -> Vec<Self> {
        match self {
            Self::Floats(out) => out.chunks_mut(numbers).map(Self::Floats).collect(),
            Self::Singles(out) => out.chunks_mut(numbers).map(Self::Singles).collect(),
            Self::Integers(out) => out.chunks_mut(numbers).map(Self::Integers).collect(),
            Self::Flags(out) => out.chunks_mut(numbers).map(Self::Flags).collect(),
        }
    }

    fn write(&mut self, lane: Lane<'_>, stride: usize, offset: usize, width: usize) -> Result<(), Failure> {
        match (self, lane) {
            (Self::Singles(out), Lane::Hot(codes, _)) => hot(out, &codes, (stride, offset, width), (0.0, 1.0)),
            (Self::Floats(out), lane) => place(out, &lane.into_floats()?, stride, offset, width, |x| x),
            (Self::Singles(out), lane) => place(out, &lane.into_floats()?, stride, offset, width, |x| x as f32),
            (Self::Integers(out), lane) => place(out, &whole(lane)?, stride, offset, width, |x| x),
            (Self::Flags(out), lane) => place(out, &whole(lane)?, stride, offset, width, |x| x != 0),
        }
        Ok(())
    }
}

fn hot<T: Copy>(out: &mut [T], codes: &[i64], (stride, offset, width): (usize, usize, usize), (zero, one): (T, T)) {
    if stride == width {
        out.fill(zero);
    } else {
        out.chunks_mut(stride).for_each(|row| row[offset..offset + width].fill(zero));
    }
    set_hot(codes, width, stride, offset, out, one);
}

fn whole(lane: Lane<'_>) -> Result<Vec<i64>, Failure> {
    let Lane::Integers(values, missing) = lane else {
        return Err(Failure::misuse("whole numbers are wanted, and there are others"));
    };
    missing.iter().position(|&is| is).map_or(Ok(values), |row| Err(Failure::missing(row)))
}

fn place<T: Copy, U>(out: &mut [U], values: &[T], stride: usize, offset: usize, width: usize, of: impl Fn(T) -> U) {
    if stride == width {
        out.iter_mut().zip(values).for_each(|(out, &value)| *out = of(value));
        return;
    }
    for (row, values) in out.chunks_mut(stride).zip(values.chunks(width)) {
        row[offset..offset + width].iter_mut().zip(values).for_each(|(out, &value)| *out = of(value));
    }
}

impl Program {
    /// Runs all chains on rows of columns. The arrays have room for these.
    ///
    /// # Errors
    /// For the first row that a chain cannot work on.
    pub fn run(
        &self,
        columns: &[Column<'_>],
        rows: usize,
        arrays: Vec<Array<'_>>,
        pool: Option<&ThreadPool>,
    ) -> Result<(), RowFailure> {
        let mut chunks: Vec<Vec<Array<'_>>> = Vec::new();
        chunks.resize_with(rows.div_ceil(CHUNK), Vec::new);
        for (array, &width) in arrays.into_iter().zip(&self.widths) {
            for (chunk, part) in chunks.iter_mut().zip(array.chunks((CHUNK * width).max(1))) {
                chunk.push(part);
            }
        }
        let work = |number: usize, mut arrays: Vec<Array<'_>>| {
            let first = number * CHUNK;
            self.run_chunk(columns, first, CHUNK.min(rows - first), &mut arrays).err()
        };
        find_first(pool, chunks, work).map_or(Ok(()), Err)
    }

    fn run_chunk(
        &self,
        columns: &[Column<'_>],
        first: usize,
        rows: usize,
        arrays: &mut [Array<'_>],
    ) -> Result<(), RowFailure> {
        for chain in &self.chains {
            let made = chain.lane(columns, first, rows).and_then(|lane| {
                let versions = chain.versions(columns, first, rows);
                let lane = chain.steps.iter().try_fold(lane, |lane, step| step.apply(lane, versions))?;
                arrays[chain.array].write(lane, self.widths[chain.array], chain.offset, chain.width)
            });
            made.map_err(|failure| failure.of_column(&chain.name, first))?;
        }
        Ok(())
    }
}

impl Chain {
    fn versions<'a>(&self, columns: &[Column<'a>], first: usize, rows: usize) -> &'a [i64] {
        match self.inputs.get(1).map(|&input| columns[input]) {
            Some(Column::Integers(versions, _)) if self.pairs.is_empty() => &versions[first..first + rows],
            _ => &[],
        }
    }

    fn lane<'a>(&self, columns: &'a [Column<'_>], first: usize, rows: usize) -> Result<Lane<'a>, Failure> {
        if self.pairs.is_empty() {
            return Ok(columns[self.inputs[0]].lane(first, rows));
        }
        let floats: Vec<Vec<f64>> = self
            .inputs
            .iter()
            .map(|&input| columns[input].lane(first, rows).into_floats())
            .collect::<Result<_, _>>()?;
        let width = self.pairs.len();
        let mut products = vec![0.0; rows * width];
        for (place, &(one, other)) in self.pairs.iter().enumerate() {
            for (row, (a, b)) in floats[one].iter().zip(&floats[other]).enumerate() {
                products[row * width + place] = a * b;
            }
        }
        Ok(Lane::Vectors(products))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::pool::shared;

    fn program() -> Program {
        let chain = |steps, array, offset, width| Chain {
            name: "x".into(),
            inputs: vec![0],
            pairs: vec![],
            steps,
            array,
            offset,
            width,
        };
        let code = || vec![Step::Cut(vec![10.0])];
        let hot = || vec![Step::Cut(vec![10.0]), Step::OneHot(2)];
        Program {
            chains: vec![chain(vec![Step::Add(1.0)], 0, 0, 1), chain(hot(), 0, 1, 2), chain(code(), 1, 0, 1)],
            widths: vec![3, 1],
        }
    }

    #[test]
    fn chains_fill_their_places_on_any_threads() {
        let values: Vec<f64> = (0..5000).map(f64::from).collect();
        let mut wanted = None;
        for pool in [None, Some(shared(3).unwrap())] {
            let (mut floats, mut codes) = (vec![0.0_f32; 15_000], vec![0; 5000]);
            let arrays = vec![Array::Singles(&mut floats), Array::Integers(&mut codes)];
            program().run(&[Column::Floats(&values)], 5000, arrays, pool.as_deref()).unwrap();
            assert_eq!(floats[..6], [1.0, 1.0, 0.0, 2.0, 1.0, 0.0]);
            assert_eq!((codes[9], codes[10], floats[31], floats[32]), (0, 1, 0.0, 1.0));
            assert_eq!(*wanted.get_or_insert_with(|| floats.clone()), floats);
        }
    }

    #[test]
    fn the_first_bad_row_is_told() {
        let mut program = program();
        program.chains[0].steps.push(Step::Log(0.0));
        let mut values = vec![1.0; 3000];
        (values[2500], values[2900]) = (-1.0, -1.0);
        let (mut floats, mut codes) = (vec![0.0_f32; 9000], vec![0; 3000]);
        let arrays = vec![Array::Singles(&mut floats), Array::Integers(&mut codes)];
        let failure = program.run(&[Column::Floats(&values)], 3000, arrays, None).unwrap_err();
        assert_eq!(failure.row, 2500);
    }
}
