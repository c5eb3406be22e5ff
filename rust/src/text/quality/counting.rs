//! Tables of hashes that are cleared at no cost: which were there, and how often.

/// What was seen of one collection.
#[derive(Default)]
pub struct Seen {
    slots: Vec<Slot>,
    turn: u32,
    used: usize,
}

#[derive(Clone, Copy, Default)]
struct Slot {
    hash: u64,
    turn: u32,
    /// The number of the element that came first.
    first: u32,
}

impl Seen {
    /// Begins with a collection of at most `elements`.
    pub fn begin(&mut self, elements: usize) {
        let needed = (2 * elements).next_power_of_two().max(64);
        if self.slots.len() < needed || self.turn == u32::MAX {
            self.slots = vec![Slot::default(); needed.max(self.slots.len())];
            self.turn = 0;
        }
        self.turn += 1;
        self.used = needed - 1;
    }

    /// The first element of a hash for which `is_same`; the element itself where there was none.
    pub fn first(&mut self, hash: u64, element: u32, is_same: impl Fn(u32) -> bool) -> u32 {
        let mut place = (hash.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & self.used;
        loop {
            let slot = &mut self.slots[place];
            if slot.turn != self.turn {
                *slot = Slot { hash, turn: self.turn, first: element };
                return element;
            }
            if slot.hash == hash && is_same(slot.first) {
                return slot.first;
            }
            place = (place + 1) & self.used;
        }
    }

    /// Whether texts came before: how many did, and their characters.
    pub fn repeated(&mut self, texts: &[&str]) -> (usize, usize) {
        self.begin(texts.len());
        let (mut count, mut characters) = (0, 0);
        for (number, &text) in (0..).zip(texts) {
            let hash = xxhash_rust::xxh3::xxh3_64(text.as_bytes());
            if self.first(hash, number, |first| texts[first as usize] == text) != number {
                count += 1;
                characters += super::super::characters::length(text);
            }
        }
        (count, characters)
    }
}
