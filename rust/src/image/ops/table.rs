//! Each byte by itself.

use std::sync::Arc;

use super::super::chain::Chain;
use super::super::recolour::Tables;
use super::{Arguments, Op, chance};
use crate::core::keys::Rng;

/// With the given probability, every number of every channel is replaced by what stands at its place in a table.
#[derive(Clone, Debug)]
pub struct RandomTable {
    p: f64,
    table: Arc<Tables>,
}

impl RandomTable {
    /// With "p" and "table".
    ///
    /// # Errors
    /// If one is missing, or of another type.
    pub fn new(from: &Arguments) -> Result<Self, String> {
        Ok(Self { p: from.number("p")?, table: Arc::new(Tables::of(from.table("table")?)) })
    }
}

impl Op for RandomTable {
    fn apply(&self, chain: &mut Chain, rng: &mut Rng) {
        if chance(self.p, chain, rng) {
            chain.recolour(self.table.clone());
        }
    }
}
