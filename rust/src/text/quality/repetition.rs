//! Gopher's rules about repetition (table A1 of arXiv 2112.11446), as datatrove's GopherRepetitionFilter has them.

use super::super::characters::{length, strip};
use super::{Rules, Scratch, given, ratio};
use crate::text::words::Word;

/// Thresholds: of lines and paragraphs that came before, of n-grams the most frequent one, and those that came before.
pub struct Repetition {
    /// The part of lines at most.
    pub dup_line_frac: Option<f64>,
    /// The part of paragraphs at most.
    pub dup_para_frac: Option<f64>,
    /// The part of characters in such lines at most.
    pub dup_line_char_frac: Option<f64>,
    /// The part of characters in such paragraphs at most.
    pub dup_para_char_frac: Option<f64>,
    /// Words of an n-gram, and the part of characters in the most frequent one at most.
    pub top_n_grams: Vec<(usize, f64)>,
    /// Words of an n-gram, and the part of characters in those that came before at most.
    pub dup_n_grams: Vec<(usize, f64)>,
}

impl Rules for Repetition {
    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> =
            ["empty", "dup_para_frac", "dup_para_char_frac", "dup_line_frac", "dup_line_char_frac"]
                .map(str::to_owned)
                .to_vec();
        names.extend(self.top_n_grams.iter().map(|(n, _)| format!("top_{n}_gram")));
        names.extend(self.dup_n_grams.iter().map(|(n, _)| format!("duplicated_{n}_n_grams")));
        names
    }

    /// The words are split already.
    fn broken(&self, text: &str, scratch: &mut Scratch) -> u8 {
        if text.is_empty() {
            return 1;
        }
        let all = length(text);
        let above = |part, whole, most| given(most).is_some_and(|most| ratio(part, whole) > most);
        let stripped = strip(text);
        let paragraphs: Vec<&str> = blocks(stripped, 2);
        let (count, characters) = scratch.seen.repeated(&paragraphs);
        if above(count, paragraphs.len(), self.dup_para_frac) {
            return 2;
        }
        if above(characters, all, self.dup_para_char_frac) {
            return 3;
        }
        let lines: Vec<&str> = blocks(text, 1);
        let (count, characters) = scratch.seen.repeated(&lines);
        if above(count, lines.len(), self.dup_line_frac) {
            return 4;
        }
        if above(characters, all, self.dup_line_char_frac) {
            return 5;
        }
        let grams = Grams::new(text, &scratch.words);
        let mut number = 5;
        for &(n, most) in &self.top_n_grams {
            number += 1;
            if n > 0 && grams.words() >= n && ratio(grams.top(n, scratch), all) > most {
                return number;
            }
        }
        for &(n, most) in &self.dup_n_grams {
            number += 1;
            if n > 0 && ratio(grams.repeated(n, scratch), all) > most {
                return number;
            }
        }
        0
    }
}

/// What stands between runs of at least `least` line feeds.
fn blocks(text: &str, least: usize) -> Vec<&str> {
    let (bytes, mut found, mut start, mut place) = (text.as_bytes(), Vec::new(), 0, 0);
    while let Some(next) = memchr::memchr(b'\n', &bytes[place..]) {
        let begin = place + next;
        let run = bytes[begin..].iter().take_while(|&&one| one == b'\n').count();
        place = begin + run;
        if run >= least {
            found.push(&text[start..begin]);
            start = place;
        }
    }
    found.push(&text[start..]);
    found
}

/// The words of a text one behind the other, and their hashes, so that a hash of neighbouring ones is a difference.
struct Grams {
    joined: Vec<u8>,
    /// Where each word begins in `joined`, in bytes and in characters; one more.
    starts: Vec<(u32, u32)>,
    /// The hash of all words in front of each; one more.
    hashes: Vec<u64>,
    powers: Vec<u64>,
}

const BASE: u64 = 0x9e37_79b9_7f4a_7c15;
/// Powers that are kept.
const MOST_POWERS: usize = 1 << 12;

impl Grams {
    fn new(text: &str, words: &[Word]) -> Self {
        let mut grams = Self {
            joined: Vec::with_capacity(text.len()),
            starts: Vec::with_capacity(words.len() + 1),
            hashes: Vec::with_capacity(words.len() + 1),
            powers: Vec::new(),
        };
        let (mut hash, mut characters) = (0_u64, 0);
        for word in words {
            grams.starts.push((grams.joined.len() as u32, characters));
            grams.hashes.push(hash);
            let letters = word.of(text);
            for &byte in letters.as_bytes() {
                hash = hash.wrapping_mul(BASE).wrapping_add(u64::from(byte) + 1);
                characters += u32::from(byte as i8 >= -64);
            }
            grams.joined.extend_from_slice(letters.as_bytes());
        }
        grams.starts.push((grams.joined.len() as u32, characters));
        grams.hashes.push(hash);
        let longest = grams.joined.len().min(MOST_POWERS);
        grams.powers =
            std::iter::successors(Some(1_u64), |one| Some(one.wrapping_mul(BASE))).take(longest + 1).collect();
        grams
    }

    fn words(&self) -> usize {
        self.starts.len() - 1
    }

    fn bytes(&self, first: usize, n: usize) -> &[u8] {
        &self.joined[self.starts[first].0 as usize..self.starts[first + n].0 as usize]
    }

    fn characters(&self, first: usize, n: usize) -> usize {
        (self.starts[first + n].1 - self.starts[first].1) as usize
    }

    /// The hash of `n` words from one on, without what lies between them.
    fn hash(&self, first: usize, n: usize) -> u64 {
        let length = (self.starts[first + n].0 - self.starts[first].0) as usize;
        let power = self.powers.get(length).copied().unwrap_or_else(|| BASE.wrapping_pow(length as u32));
        let hash = self.hashes[first + n].wrapping_sub(self.hashes[first].wrapping_mul(power));
        (hash ^ (hash >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93)
    }

    /// Whether `n` words from one on are those from another on, word by word.
    fn are_same(&self, one: usize, other: usize, n: usize) -> bool {
        self.bytes(one, n) == self.bytes(other, n)
            && (1..n).all(|at| {
                self.starts[one + at].0 - self.starts[one].0 == self.starts[other + at].0 - self.starts[other].0
            })
    }

    /// Characters of all places of the most frequent n-gram, of several the one that comes first, with a space between words.
    fn top(&self, n: usize, scratch: &mut Scratch) -> usize {
        let count = self.words() + 1 - n;
        scratch.seen.begin(count);
        let mut times = vec![0_u32; count];
        for number in 0..count {
            let first = scratch
                .seen
                .first(self.hash(number, n), number as u32, |first| self.are_same(first as usize, number, n));
            times[first as usize] += 1;
        }
        let most = times.iter().copied().max().unwrap_or(0);
        let first = times.iter().position(|&one| one == most).unwrap_or(0);
        (self.characters(first, n) + n - 1) * most as usize
    }

    /// Characters of n-grams that came before; what is counted is left behind.
    fn repeated(&self, n: usize, scratch: &mut Scratch) -> usize {
        let (words, mut place, mut characters) = (self.words(), 0, 0);
        scratch.seen.begin(words);
        while place + n <= words {
            let letters = self.bytes(place, n);
            let first =
                scratch.seen.first(self.hash(place, n), place as u32, |first| self.bytes(first as usize, n) == letters);
            if first == place as u32 {
                place += 1;
            } else {
                characters += self.characters(place, n);
                place += n;
            }
        }
        characters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_lie_between_line_feeds() {
        assert_eq!(blocks("a\nb\n\n\nc\n", 2), ["a\nb", "c\n"]);
        assert_eq!(blocks("\na\n\nb\n", 1), ["", "a", "b", ""]);
        assert_eq!(blocks("", 1), [""]);
    }

    #[test]
    fn n_grams_are_counted() {
        let text = "a bc a bc ab c";
        let mut scratch = Scratch::default();
        scratch.splitter.split(text, &mut scratch.words, false);
        let grams = Grams::new(text, &scratch.words);
        assert_eq!(grams.words(), 6);
        assert_eq!(grams.top(2, &mut scratch), 8); // "a bc" twice
        assert_eq!(grams.repeated(2, &mut scratch), 6); // "abc" twice more, of other words the second time
        assert_eq!(grams.repeated(7, &mut scratch), 0);
    }
}
