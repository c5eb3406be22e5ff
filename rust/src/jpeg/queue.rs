//! Blocks between entropy decoding and inverse DCT, which takes them in pairs.

use super::idct::{Block, Target};
use super::kernels::Kernels;

/// Blocks that wait for their inverse DCT; more than one MCU's (10) plus what may be left from the last.
const QUEUE: usize = 16;

/// Blocks between entropy decoding and inverse DCT.
pub(super) struct Queue {
    blocks: [Block; QUEUE],
    targets: [Target; QUEUE],
    components: [usize; QUEUE],
    /// Samples per side: 8, 4 or 2.
    sizes: [usize; QUEUE],
    len: usize,
}

impl Queue {
    pub fn new() -> Self {
        Self {
            blocks: [Block([0; 64]); QUEUE],
            targets: [Target::default(); QUEUE],
            components: [0; QUEUE],
            sizes: [8; QUEUE],
            len: 0,
        }
    }

    /// Blocks that wait.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Forgets all blocks.
    #[inline(always)]
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Where the next block's coefficients go; it waits once it was pushed.
    #[inline(always)]
    pub fn next(&mut self) -> &mut Block {
        &mut self.blocks[self.len & (QUEUE - 1)]
    }

    /// Where the coefficients of the next two blocks go; they wait once they were pushed, in their order.
    #[inline(always)]
    pub fn next_two(&mut self) -> [&mut Block; 2] {
        let [first, second, ..] = &mut self.blocks[self.len.min(QUEUE - 2)..] else { unreachable!() };
        [first, second]
    }

    /// Puts the second of the next two blocks in the place of the first.
    #[cold]
    pub fn drop_next(&mut self) {
        let [first, second] = self.next_two();
        *first = *second;
    }

    /// Lets the next block wait.
    #[inline(always)]
    pub fn push(&mut self, component: usize, size: usize, target: Target) {
        let at = self.len & (QUEUE - 1);
        self.sizes[at] = size;
        self.targets[at] = target;
        self.components[at] = component;
        self.len = at + 1;
    }

    /// Transforms all pairs, and what is left over too when `all` is set.
    #[inline(always)]
    pub fn flush<K: Kernels>(&mut self, steps: &[&[u16; 64]; 4], planes: &mut [u8], all: bool) {
        let mut i = 0;
        while i + 2 <= self.len || (all && i < self.len) {
            let a = i;
            // A pair has one size; a block without a partner is transformed twice.
            let b = if i + 1 < self.len && self.sizes[i + 1] == self.sizes[i] { i + 1 } else { i };
            let pair = [steps[self.components[a] & 3], steps[self.components[b] & 3]];
            let (blocks, targets) = ([&self.blocks[a], &self.blocks[b]], [self.targets[a], self.targets[b]]);
            match self.sizes[a] {
                8 => K::idct_pair(blocks, pair, planes, targets),
                4 => K::idct_4x4_pair(blocks, pair, planes, targets),
                _ => K::idct_2x2_pair(blocks, pair, planes, targets),
            }
            i = b + 1;
        }
        if i < self.len {
            self.blocks[0] = self.blocks[i];
            self.targets[0] = self.targets[i];
            self.components[0] = self.components[i];
            self.sizes[0] = self.sizes[i];
            self.len = 1;
        } else {
            self.len = 0;
        }
    }
}
