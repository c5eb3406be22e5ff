//! Changes of an image's colours that are made row by row, while its rows stream.

use std::fmt::Debug;

use super::resample::{Planes, pitch_of};
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
pub struct Tables(Vec<[u8; 256]>);

impl Tables {
    /// One table for all planes.
    #[must_use]
    pub fn of(table: [u8; 256]) -> Self {
        Self(vec![table])
    }

    /// A table for each plane.
    #[must_use]
    pub const fn of_planes(tables: Vec<[u8; 256]>) -> Self {
        Self(tables)
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
        Self((0..planes).map(both).collect())
    }
}

impl Recolour for Tables {
    fn row(&self, planes: Planes<'_>, out: &mut [u8], _: Level) {
        for (plane, out) in out.chunks_exact_mut(pitch_of(planes.width)).enumerate() {
            let table = &self.0[plane % self.0.len()];
            out.iter_mut().zip(planes.plane(plane)).for_each(|(to, &from)| *to = table[usize::from(from)]);
        }
    }

    fn keeps_zero(&self) -> bool {
        self.0.iter().all(|table| table[0] == 0)
    }

    fn tables(&self) -> Option<&[[u8; 256]]> {
        Some(&self.0)
    }
}
