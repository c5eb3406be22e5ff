//! Words that belong together after all: ":" and ")" are one where nothing lies between them.

use std::collections::{HashMap, HashSet};

use super::exceptions::{Exceptions, Packed, packed};
use super::{Word, word};

/// Sequences of words that make an exception, by their first one.
pub struct Phrases {
    firsts: Packed,
    seconds: Packed,
    behind: Vec<Vec<Vec<&'static str>>>,
}

impl Phrases {
    /// All of them.
    pub fn new() -> Self {
        let mut by_first: HashMap<&'static str, Vec<Vec<&'static str>>> = HashMap::new();
        let mut seconds = Packed::new();
        for line in include_str!("phrases.txt").lines() {
            let mut words = line.split('\t');
            let first = words.next().unwrap_or_default();
            let rest: Vec<&'static str> = words.collect();
            if let Some(key) = packed(rest[0].as_bytes()) {
                seconds.insert(key, 1);
            }
            by_first.entry(first).or_default().push(rest);
        }
        let (mut firsts, mut behind) = (Packed::new(), Vec::new());
        for (number, (first, rests)) in by_first.into_iter().enumerate() {
            let key = packed(first.as_bytes()).expect("first words are short");
            firsts.insert(key, u16::try_from(number).expect("the file has fewer lines"));
            behind.push(rests);
        }
        Self { firsts, seconds, behind }
    }

    /// Makes words that make an exception its parts. The longest come first, then those in front; none overlaps another.
    pub fn put_together(&self, text: &str, words: &mut Vec<Word>, exceptions: &Exceptions) {
        let mut found = self.found(text, words);
        if found.is_empty() {
            return;
        }
        found.sort_unstable_by_key(|&(start, end)| (usize::MAX - (end - start), start));
        let (mut seen, mut kept) = (HashSet::new(), Vec::new());
        for (start, end) in found {
            if !seen.contains(&start) && !seen.contains(&(end - 1)) {
                kept.push((start, end));
            }
            seen.extend(start..end);
        }
        kept.sort_unstable();
        let (bytes, mut made, mut done) = (text.as_bytes(), Vec::with_capacity(words.len()), 0);
        for (start, end) in kept {
            made.extend_from_slice(&words[done..start]);
            done = end;
            let (from, to) = (words[start].start as usize, words[end - 1].end as usize);
            match exceptions.parts(&bytes[from..to]) {
                Some(parts) => {
                    let mut place = from;
                    for part in parts {
                        made.push(word(place, place + part.len()));
                        place += part.len();
                    }
                }
                None => made.extend_from_slice(&words[start..end]),
            }
        }
        made.extend_from_slice(&words[done..]);
        *words = made;
    }

    fn found(&self, text: &str, words: &[Word]) -> Vec<(usize, usize)> {
        let (bytes, mut found) = (text.as_bytes(), Vec::new());
        let is_letter = |one: Word| bytes[one.start as usize].is_ascii_alphanumeric();
        for (number, pair) in words.windows(2).enumerate() {
            if (is_letter(pair[0]) && is_letter(pair[1])) || !is_next(bytes, pair[0], pair[1]) {
                continue;
            }
            let second = packed(pair[1].of(text).as_bytes()).and_then(|key| self.seconds.get(key));
            let first = second.and_then(|_| packed(pair[0].of(text).as_bytes())).and_then(|key| self.firsts.get(key));
            let Some(first) = first else { continue };
            for rest in &self.behind[first as usize] {
                let end = number + 1 + rest.len();
                let is_there = end <= words.len()
                    && (number + 1..end)
                        .zip(rest)
                        .all(|(at, part)| is_next(bytes, words[at - 1], words[at]) && words[at].of(text) == *part);
                if is_there {
                    found.push((number, end));
                }
            }
        }
        found
    }
}

/// Whether two words are neighbours for spaCy: nothing lies between them, or one space.
fn is_next(bytes: &[u8], one: Word, other: Word) -> bool {
    one.end == other.start || (one.end + 1 == other.start && bytes[one.end as usize] == b' ')
}
