//! Runs of letters that are split in their own way: "don't" is "do" and "n't".

use std::collections::HashMap;

/// Exceptions, by what they are of.
pub struct Exceptions {
    parts: Vec<Vec<&'static str>>,
    wholes: Vec<&'static str>,
    short: Packed,
    long: HashMap<&'static [u8], u16>,
    /// By a first byte, and by a last one, the lengths that exceptions with it have, a bit each: most words need no look into the tables.
    lengths: [[u32; 256]; 2],
}

impl Exceptions {
    /// All of them.
    pub fn new() -> Self {
        let parts: Vec<Vec<&'static str>> =
            include_str!("exceptions.txt").lines().map(|line| line.split('\t').collect()).collect();
        let (mut short, mut long, mut lengths) = (Packed::new(), HashMap::new(), [[0; 256]; 2]);
        let wholes: Vec<&'static str> = parts.iter().map(|parts| &*String::leak(parts.concat())).collect();
        for (number, &whole) in wholes.iter().enumerate() {
            for (lengths, &byte) in lengths.iter_mut().zip([&whole.as_bytes()[0], &whole.as_bytes()[whole.len() - 1]]) {
                lengths[byte as usize] |= 1 << whole.len().min(31);
            }
            let number = u16::try_from(number).expect("the file has fewer lines");
            match packed(whole.as_bytes()) {
                Some(key) => short.insert(key, number),
                None => _ = long.insert(whole.as_bytes(), number),
            }
        }
        Self { parts, wholes, short, long, lengths }
    }

    /// All of them, whole.
    pub fn wholes(&self) -> &[&'static str] {
        &self.wholes
    }

    /// The parts of an exception.
    pub fn parts(&self, run: &[u8]) -> Option<&[&'static str]> {
        let (first, last) = (*run.first()?, *run.last()?);
        if self.lengths[0][first as usize] & self.lengths[1][last as usize] & (1 << run.len().min(31)) == 0 {
            return None;
        }
        let found = match packed(run) {
            Some(key) => self.short.get(key),
            None => self.long.get(run).copied(),
        };
        found.map(|number| &self.parts[number as usize][..])
    }
}

/// At most 15 bytes, and how many, as one number.
pub fn packed(bytes: &[u8]) -> Option<u128> {
    if bytes.len() > 15 {
        return None;
    }
    let mut all = [0; 16];
    all[..bytes.len()].copy_from_slice(bytes);
    all[15] = bytes.len() as u8;
    Some(u128::from_le_bytes(all))
}

/// A table of short texts, each with a number.
pub struct Packed {
    slots: Vec<(u128, u16)>,
}

impl Packed {
    const BITS: u32 = 13;

    pub fn new() -> Self {
        Self { slots: vec![(0, 0); 1 << Self::BITS] }
    }

    pub fn insert(&mut self, key: u128, number: u16) {
        let place = self.place(key);
        self.slots[place] = (key, number);
    }

    pub fn get(&self, key: u128) -> Option<u16> {
        let (found, number) = self.slots[self.place(key)];
        (found == key).then_some(number)
    }

    /// Where a key lies, or belongs.
    fn place(&self, key: u128) -> usize {
        let folded = (key as u64) ^ ((key >> 64) as u64).rotate_left(23);
        let mut place = (folded.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - Self::BITS)) as usize;
        while self.slots[place].0 != 0 && self.slots[place].0 != key {
            place = (place + 1) & (self.slots.len() - 1);
        }
        place
    }
}
