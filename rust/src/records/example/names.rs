//! Which of the wanted features a key names: by a guess, then by hash.

use super::wire::Part;
use crate::core::keys::finalise;

/// The number of a key that is not wanted.
pub const NONE: u32 = u32::MAX;

#[derive(Debug)]
struct Name {
    text: Box<[u8]>,
    /// The first eight bytes, padded with zeros.
    head: u64,
}

/// The wanted features' names, numbered from 0.
#[derive(Debug)]
pub struct Names {
    names: Vec<Name>,
    /// Open addressing, at most half full.
    table: Vec<u32>,
}

impl Names {
    /// Names in the order of their numbers; they must differ.
    #[must_use]
    pub fn new<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        let names: Vec<Name> = texts
            .into_iter()
            .map(|text| {
                let text: Box<[u8]> = text.as_bytes().into();
                Name { head: word(&text), text }
            })
            .collect();
        let mut table = vec![NONE; (2 * names.len()).next_power_of_two().max(2)];
        for (number, name) in names.iter().enumerate() {
            let mut place = hash(&name.text, name.head) as usize & (table.len() - 1);
            while table[place] != NONE {
                place = (place + 1) & (table.len() - 1);
            }
            table[place] = number as u32;
        }
        Self { names, table }
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The number of the name that lies at `key`, or [`NONE`]; `guess` is tried first.
    #[inline(always)]
    pub fn number(&self, bytes: &[u8], key: Part, guess: u32) -> u32 {
        let head = match bytes.get(key.start..).and_then(<[u8]>::first_chunk::<8>) {
            Some(chunk) if key.len() < 8 => u64::from_le_bytes(*chunk) & ((1 << (8 * key.len())) - 1),
            Some(chunk) => u64::from_le_bytes(*chunk),
            None => word(&bytes[key.start..key.end]),
        };
        if let Some(name) = self.names.get(guess as usize)
            && name.is(bytes, key, head)
        {
            return guess;
        }
        self.look_up(bytes, key, head)
    }

    fn look_up(&self, bytes: &[u8], key: Part, head: u64) -> u32 {
        let mut place = hash(&bytes[key.start..key.end], head) as usize & (self.table.len() - 1);
        loop {
            let number = self.table[place];
            match self.names.get(number as usize) {
                None => return NONE,
                Some(name) if name.is(bytes, key, head) => return number,
                Some(_) => place = (place + 1) & (self.table.len() - 1),
            }
        }
    }
}

impl Name {
    #[inline(always)]
    fn is(&self, bytes: &[u8], key: Part, head: u64) -> bool {
        self.head == head
            && self.text.len() == key.len()
            && (key.len() <= 8 || self.text[8..] == bytes[key.start + 8..key.end])
    }
}

/// The first eight bytes, padded with zeros.
fn word(text: &[u8]) -> u64 {
    let mut word = [0; 8];
    let length = text.len().min(8);
    word[..length].copy_from_slice(&text[..length]);
    u64::from_le_bytes(word)
}

fn hash(text: &[u8], head: u64) -> u64 {
    let tail = word(&text[text.len().saturating_sub(8)..]);
    finalise(head ^ tail.rotate_left(21) ^ (text.len() as u64) << 56)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found_by_guess_and_by_hash() {
        let texts: Vec<String> = (0..300).map(|i| "x".repeat(i % 20) + &i.to_string()).chain([String::new()]).collect();
        let names = Names::new(texts.iter().map(String::as_str));
        for (number, text) in texts.iter().enumerate() {
            for padding in [0, 9] {
                let bytes = [text.as_bytes(), &vec![b'z'; padding]].concat();
                let key = Part { start: 0, end: text.len() };
                assert_eq!(names.number(&bytes, key, number as u32), number as u32);
                assert_eq!(names.number(&bytes, key, NONE), number as u32);
                assert_eq!(names.number(&bytes, key, 7), number as u32);
            }
        }
        let other = b"something else";
        assert_eq!(names.number(other, Part { start: 0, end: other.len() }, 0), NONE);
    }
}
