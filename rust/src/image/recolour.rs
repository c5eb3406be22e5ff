//! Changes of an image's colours that are made row by row, while its rows stream.

use std::fmt::Debug;

use super::resample::{Planes, pitch_of};
#[cfg(target_arch = "x86_64")]
use super::shuffle_avx2;
use super::simd::Level;

/// Other colours for the same pixels.
pub trait Recolour: Debug + Send + Sync {
    /// Writes a row's planes, one or three that fill `out`, [`pitch_of`] the width apart, with the given instructions.
    fn row(&self, planes: Planes<'_>, out: &mut [u8], level: Level);

    /// Whether black stays black, as it is around an image that is smaller than its crop.
    fn keeps_zero(&self) -> bool {
        true
    }

    /// What becomes of each number, where that depends on nothing else: of all planes, or of each one. Neighbours in a chain become one.
    fn tables(&self) -> Option<&[[u8; 256]]> {
        None
    }
}

/// What becomes of each number: one table for all planes, or one for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tables {
    tables: Vec<[u8; 256]>,
    bits: Vec<Option<Bits>>,
}

/// A table that keeps some bits and turns some over: a number is `number & kept ^ turned`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bits {
    kept: u8,
    turned: u8,
}

impl Bits {
    fn of(table: &[u8; 256]) -> Option<Self> {
        let (kept, turned) = (table[255] ^ table[0], table[0]);
        (0..=255)
            .all(|number: u8| table[usize::from(number)] == number & kept ^ turned)
            .then_some(Self { kept, turned })
    }
}

impl Tables {
    /// One table for all planes.
    #[must_use]
    pub fn of(table: [u8; 256]) -> Self {
        Self::of_planes(vec![table])
    }

    /// A table for each plane.
    #[must_use]
    pub fn of_planes(tables: Vec<[u8; 256]>) -> Self {
        let bits = tables.iter().map(Bits::of).collect();
        Self { tables, bits }
    }

    /// A table of a function of one number.
    #[must_use]
    pub fn from_fn(of: impl Fn(u8) -> u8) -> Self {
        Self::of(std::array::from_fn(|number| of(number as u8)))
    }

    /// Two tables as one.
    pub(super) fn one_behind_another(first: &[[u8; 256]], second: &[[u8; 256]]) -> Self {
        let planes = first.len().max(second.len());
        let both =
            |plane: usize| first[plane % first.len()].map(|number| second[plane % second.len()][usize::from(number)]);
        Self::of_planes((0..planes).map(both).collect())
    }
}

impl Recolour for Tables {
    fn row(&self, planes: Planes<'_>, out: &mut [u8], level: Level) {
        for (plane, out) in out.chunks_exact_mut(pitch_of(planes.width)).enumerate() {
            let (from, which) = (planes.plane(plane), plane % self.tables.len());
            if let Some(Bits { kept, turned }) = self.bits[which] {
                out.iter_mut().zip(from).for_each(|(to, &from)| *to = from & kept ^ turned);
            } else {
                look_up(level, &self.tables[which], from, &mut out[..planes.width]);
            }
        }
    }

    fn keeps_zero(&self) -> bool {
        self.tables.iter().all(|table| table[0] == 0)
    }

    fn tables(&self) -> Option<&[[u8; 256]]> {
        Some(&self.tables)
    }
}

/// What stands in a table at each number; both slices are of one length.
fn look_up(level: Level, table: &[u8; 256], from: &[u8], to: &mut [u8]) {
    match level {
        Level::Scalar => to.iter_mut().zip(from).for_each(|(to, &from)| *to = table[usize::from(from)]),
        #[cfg(target_arch = "x86_64")]
        Level::Avx2(token) => shuffle_avx2::look_up(token, table, from, to),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_and_tables_give_what_stands_in_the_table() {
        let of: [fn(u8) -> u8; 5] =
            [|x| x, |x| 255 - x, |x| x & 0xF0, |x| if x < 128 { x } else { 255 - x }, |x| x.saturating_mul(3)];
        let row: Vec<u8> = (0..64).map(|place| (place * 73) as u8).collect();
        for (number, of) in of.into_iter().enumerate() {
            let tables = Tables::from_fn(of);
            assert_eq!(tables.bits[0].is_some(), number < 3);
            for level in [Level::Scalar, Level::best()] {
                let mut out = [0; 64];
                tables.row(Planes { bytes: &row, pitch: 64, width: 50 }, &mut out, level);
                assert!(out.iter().zip(&row).take(50).all(|(&found, &from)| found == of(from)));
            }
        }
    }
}
