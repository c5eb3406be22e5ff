//! Ops around ops. Each op inside draws by a number of its own, which its path in the chain gives it, so that no draw depends on another's.

use super::super::chain::Chain;
use super::{Arguments, Op, Ops, chance};
use crate::core::keys::Rng;

/// All ops inside, one after another, with the given probability.
#[derive(Clone, Debug)]
pub struct RandomApply {
    /// The probability.
    pub p: f64,
    /// What is applied.
    pub ops: Ops,
}

impl RandomApply {
    pub(super) fn new(from: &Arguments) -> Result<Self, String> {
        Ok(Self { p: from.number("p")?, ops: from.ops("ops")? })
    }
}

impl Op for RandomApply {
    fn apply(&self, chain: &mut Chain, rng: &mut Rng) {
        if chance(self.p, chain, rng) {
            apply_all(&self.ops, chain);
        }
    }
}

/// One of the ops inside, each with its share of the probability.
#[derive(Clone, Debug)]
pub struct RandomChoice {
    /// Of each op, in any unit.
    pub weights: Vec<f64>,
    /// Among which is chosen.
    pub ops: Ops,
}

impl RandomChoice {
    pub(super) fn new(from: &Arguments) -> Result<Self, String> {
        let (weights, ops) = (from.numbers("p")?, from.ops("ops")?);
        if weights.len() != ops.len() || ops.is_empty() {
            return Err(format!("{} weights for {} ops", weights.len(), ops.len()));
        }
        Ok(Self { weights, ops })
    }
}

impl Op for RandomChoice {
    fn apply(&self, chain: &mut Chain, rng: &mut Rng) {
        let mut left = rng.uniform() * self.weights.iter().sum::<f64>();
        let chosen = self.weights.iter().position(|weight| {
            left -= weight;
            left < 0.0
        });
        let chosen = chosen.unwrap_or(self.ops.len() - 1);
        chain.drew("chosen", chosen as f64);
        let (number, op) = &self.ops[chosen];
        chain.apply(*number, &**op);
    }
}

/// All ops inside, in a random order.
#[derive(Clone, Debug)]
pub struct RandomOrder {
    /// What is applied.
    pub ops: Ops,
}

impl RandomOrder {
    pub(super) fn new(from: &Arguments) -> Result<Self, String> {
        Ok(Self { ops: from.ops("ops")? })
    }
}

impl Op for RandomOrder {
    fn apply(&self, chain: &mut Chain, rng: &mut Rng) {
        for place in permutation(self.ops.len(), rng) {
            chain.drew("next", place as f64);
            let (number, op) = &self.ops[place];
            chain.apply(*number, &**op);
        }
    }
}

/// All ops inside, in their order.
#[derive(Clone, Debug)]
pub struct Compose {
    /// What is applied.
    pub ops: Ops,
}

impl Compose {
    pub(super) fn new(from: &Arguments) -> Result<Self, String> {
        Ok(Self { ops: from.ops("ops")? })
    }
}

impl Op for Compose {
    fn apply(&self, chain: &mut Chain, _: &mut Rng) {
        apply_all(&self.ops, chain);
    }
}

fn apply_all(ops: &Ops, chain: &mut Chain) {
    ops.iter().for_each(|(number, op)| chain.apply(*number, &**op));
}

/// The numbers below `count` in a random order (Fisher and Yates).
pub(super) fn permutation(count: usize, rng: &mut Rng) -> Vec<usize> {
    let mut places: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        places.swap(last, rng.below(last as u64 + 1) as usize);
    }
    places
}
