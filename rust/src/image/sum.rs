//! The sum that makes a byte: weights, and how it is rounded.

use super::filter::Axis;

/// The weights of one output row, and how a sum is rounded.
#[derive(Clone, Copy, Debug)]
pub struct Sum<'a> {
    /// One for each source row.
    pub weights: &'a [i16],
    /// One for each source row, or none.
    pub fine: &'a [i16],
    /// See [`Axis::fine_bits`].
    pub fine_bits: u32,
    /// See [`Axis::precision`].
    pub precision: u32,
}

impl<'a> Sum<'a> {
    /// The first `length` weights of output row or column `index`.
    #[must_use]
    pub fn new(axis: &'a Axis, index: usize, length: usize) -> Self {
        let part = index * axis.taps..index * axis.taps + length;
        let fine = axis.fine.get(part.clone()).unwrap_or_default();
        Self { weights: &axis.weights[part], fine, fine_bits: axis.fine_bits, precision: axis.precision }
    }

    pub(super) fn weight(&self, tap: usize) -> i32 {
        let fine = self.fine.get(tap).copied().unwrap_or(0);
        (i32::from(self.weights[tap]) << self.fine_bits) + i32::from(fine)
    }

    pub(super) fn round(&self, sum: i32) -> u8 {
        ((sum + (1 << (self.precision - 1))) >> self.precision).clamp(0, 255) as u8
    }
}
