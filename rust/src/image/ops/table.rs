//! Each byte by itself.

use std::sync::Arc;

use super::super::chain::{Chain, Recolour};
use super::super::resample::Planes;
use super::{Arguments, Op};
use crate::core::keys::Rng;

/// With the given probability, every number of every channel is replaced by what stands at its place in a table.
#[derive(Clone, Debug)]
pub struct RandomTable {
    p: f64,
    table: Arc<Table>,
}

impl RandomTable {
    /// With "p" and "table".
    ///
    /// # Errors
    /// If one is missing, or of another type.
    pub fn new(from: &Arguments) -> Result<Self, String> {
        Ok(Self { p: from.number("p")?, table: Arc::new(Table(from.table("table")?)) })
    }
}

impl Op for RandomTable {
    fn apply(&self, chain: &mut Chain, rng: &mut Rng) {
        if rng.uniform() < self.p {
            chain.recolour(self.table.clone());
        }
    }
}

#[derive(Debug)]
struct Table([u8; 256]);

impl Recolour for Table {
    fn row(&self, planes: Planes<'_>, out: &mut [u8]) {
        for (channel, out) in out.chunks_exact_mut(planes.pitch).enumerate() {
            out.iter_mut().zip(planes.plane(channel)).for_each(|(to, &from)| *to = self.0[usize::from(from)]);
        }
    }

    fn keeps_zero(&self) -> bool {
        self.0[0] == 0
    }
}
