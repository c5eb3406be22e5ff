//! Text as it is compared: datatrove's `simplify_text`. Lower case, every number 0, no punctuation, single spaces, no accents.

use unicode_normalization::UnicodeNormalization;

use super::characters::{Classes, class, is_space};

/// Replaces `out` by the simplified text.
pub fn simplify(text: &str, classes: Classes, out: &mut String) {
    out.clear();
    if text.is_ascii() {
        ascii_words(text.as_bytes(), &mut Ascii::default(), |word, _, _| {
            if !out.is_empty() {
                out.push(' ');
            }
            out.extend(word.iter().map(|&byte| char::from(byte)));
        });
        return;
    }
    let mut reduced = String::with_capacity(text.len());
    let lower = text.to_lowercase();
    let is_point = |one| matches!(one, '.' | ',' | '،' | '٫' | '⎖' | '⎗' | '⎘');
    let is_gap = |one| classes.is(one, class::SPACED) || is_space(one);
    reduce(lower.chars(), |one| classes.is(one, class::DIGITS), is_point, is_gap, &mut reduced);
    out.extend(reduced.nfd().filter(|&one| !classes.is(one, class::MARKS)));
}

/// Zeros behind a text's bytes, so that a block can be loaded at each place.
const BEHIND: usize = 16;
/// A byte for each of a block's sixteen.
const ONES: u128 = u128::MAX / 255;

/// What becomes of an ASCII byte: itself in lower case, or 0 where it lies between words. Without branches, so that many are done at once.
#[inline(always)]
fn kept(byte: u8) -> u8 {
    let lower = byte | 0x20;
    let letter = if lower.wrapping_sub(b'a') < 26 { lower } else { 0 };
    if byte.wrapping_sub(b'0') < 10 { byte } else { letter }
}

/// What `ascii_words` works with.
#[derive(Default)]
pub struct Ascii {
    kept: Vec<u8>,
    with_number: Vec<u8>,
}

/// The words of a text of ASCII bytes, as they are compared. `word` gets the bytes of each, the first sixteen with zeros behind them, and whether there is a number in it.
pub fn ascii_words(text: &[u8], scratch: &mut Ascii, mut word: impl FnMut(&[u8], u128, bool)) {
    let Ascii { kept: bytes, with_number } = scratch;
    bytes.clear();
    bytes.extend(text.iter().map(|&byte| kept(byte)));
    bytes.resize(text.len() + BEHIND, 0);
    let mut place = 0;
    while place < text.len() {
        if bytes[place] == 0 {
            place += 1;
            continue;
        }
        let block = block_of(&bytes[place..]);
        let zeros = !(block + 0x7f * ONES) & (0x80 * ONES); // bytes are below 128, so that none carries
        let mut length = zeros.trailing_zeros() as usize / 8;
        if length == BEHIND {
            length += bytes[place + BEHIND..].iter().take_while(|&&byte| byte != 0).count();
        }
        let filled = if length < BEHIND { !(u128::MAX << (8 * length)) } else { u128::MAX };
        let is_plain = block & filled & (0x40 * ONES) == filled & (0x40 * ONES); // letters have this bit, digits not
        let behind = bytes[place..place + length].get(BEHIND..).unwrap_or_default();
        if is_plain && !behind.iter().any(u8::is_ascii_digit) {
            word(&bytes[place..place + length], block & filled, false);
            place += length;
        } else {
            place = word_with_number(text, place, with_number);
            word(with_number, block_of(with_number), true);
        }
    }
}

/// Replaces `out` by the word that begins at a place, numbers as 0. The place behind it.
fn word_with_number(text: &[u8], mut place: usize, out: &mut Vec<u8>) -> usize {
    out.clear();
    while let Some(byte) = text.get(place).map(|&byte| kept(byte)).filter(|&byte| byte != 0) {
        let is_digit = byte.is_ascii_digit();
        out.push(if is_digit { b'0' } else { byte });
        place = if is_digit { behind_number(text, place) } else { place + 1 };
    }
    place
}

/// The first sixteen bytes, zeros behind the last one.
#[inline(always)]
fn block_of(bytes: &[u8]) -> u128 {
    if let Some(block) = bytes.first_chunk() {
        return u128::from_le_bytes(*block);
    }
    let mut block = [0; 16];
    block[..bytes.len()].copy_from_slice(bytes);
    u128::from_le_bytes(block)
}

/// The place behind digits, and behind a point or comma with further digits.
fn behind_number(text: &[u8], first: usize) -> usize {
    let behind = |first: usize| first + text[first..].iter().take_while(|one| one.is_ascii_digit()).count();
    let end = behind(first);
    match text[end..] {
        [b'.' | b',', b'0'..=b'9', ..] => behind(end + 1),
        _ => end,
    }
}

/// Writes 0 for each number, one space for gaps between other characters, and these.
fn reduce(
    characters: impl Iterator<Item = char> + Clone,
    is_digit: impl Fn(char) -> bool,
    is_point: impl Fn(char) -> bool,
    is_gap: impl Fn(char) -> bool,
    out: &mut String,
) {
    let mut rest = characters.peekable();
    let mut gap = false;
    while let Some(one) = rest.next() {
        let number = is_digit(one);
        if !number && is_gap(one) {
            gap = true;
            continue;
        }
        if std::mem::take(&mut gap) && !out.is_empty() {
            out.push(' ');
        }
        out.push(if number { '0' } else { one });
        if !number {
            continue;
        }
        while rest.next_if(|&next| is_digit(next)).is_some() {}
        let mut ahead = rest.clone();
        if ahead.next().is_some_and(&is_point) && ahead.next().is_some_and(&is_digit) {
            rest = ahead;
            while rest.next_if(|&next| is_digit(next)).is_some() {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_compared() {
        let mut out = String::new();
        for (text, expected) in [
            ("  Héllo,\tWORLD! 1.5 and 10,000.25 ", "hello world 0 and 0 0"),
            ("1.a 2", "0 a 0"),
            ("A.B 12", "a b 0"),
            ("", ""),
            ("١٢٫٥ x", "0 x"),
        ] {
            simplify(text, Classes::get(), &mut out);
            assert_eq!(out, expected);
        }
    }

    #[test]
    fn ascii_is_done_as_other_texts() {
        let (mut state, mut out, mut other) = (1_u32, String::new(), String::new());
        for _ in 0..2000 {
            let letter = |_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                char::from(b"aZ09..,, \n'-"[(state >> 16) as usize % 12])
            };
            let text: String = (0..40).map(letter).collect();
            simplify(&text, Classes::get(), &mut out);
            simplify(&format!("{text} \u{e9}"), Classes::get(), &mut other);
            assert_eq!(format!("{out} e").trim_start(), other, "{text:?}");
        }
    }
}
