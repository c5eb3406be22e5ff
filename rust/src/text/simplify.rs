//! Text as it is compared: datatrove's `simplify_text`. Lower case, every number 0, no punctuation, single spaces, no accents.

use std::ops::Range;

use unicode_normalization::UnicodeNormalization;

use super::characters::{Classes, class, is_space};

/// Replaces `out` by the simplified text.
pub fn simplify(text: &str, classes: Classes, out: &mut String) {
    out.clear();
    if text.is_ascii() {
        let mut bytes = Vec::new();
        let end = ascii_words(text.as_bytes(), &mut bytes, |_, _, _| ());
        out.push_str(std::str::from_utf8(&bytes[..end]).unwrap_or_default());
        return;
    }
    let mut reduced = String::with_capacity(text.len());
    let lower = text.to_lowercase();
    let is_point = |one| matches!(one, '.' | ',' | '،' | '٫' | '⎖' | '⎗' | '⎘');
    let is_gap = |one| classes.is(one, class::SPACED) || is_space(one);
    reduce(lower.chars(), |one| classes.is(one, class::DIGITS), is_point, is_gap, &mut reduced);
    out.extend(reduced.nfd().filter(|&one| !classes.is(one, class::MARKS)));
}

/// Bytes behind the words of `ascii_words`, so that the last one can be loaded with what lies behind it.
const BEHIND: usize = 16;

/// What becomes of an ASCII byte: itself in lower case, or nothing where it lies between words.
static KEPT: [u8; 256] = {
    let mut kept = [0; 256];
    let mut byte = 0;
    while byte < 128 {
        if (byte as u8).is_ascii_alphanumeric() {
            kept[byte] = (byte as u8).to_ascii_lowercase();
        }
        byte += 1;
    }
    kept
};

/// The same of a text of ASCII bytes, replacing what `out` holds; `word` gets `out`, where each word lies in it, and whether there is a number in it. Where the text ends; some bytes follow it.
pub fn ascii_words(text: &[u8], out: &mut Vec<u8>, mut word: impl FnMut(&[u8], Range<usize>, bool)) -> usize {
    if out.len() < text.len() + BEHIND {
        out.resize(text.len() + BEHIND, 0);
    }
    let (mut place, mut end) = (0, 0);
    while place < text.len() {
        if KEPT[text[place] as usize] == 0 {
            place += 1;
            continue;
        }
        if end > 0 {
            out[end] = b' ';
            end += 1;
        }
        let (start, mut has_number) = (end, false);
        while let Some(&byte) = text.get(place) {
            let kept = KEPT[byte as usize];
            if kept == 0 {
                break;
            }
            let is_digit = kept <= b'9';
            has_number |= is_digit;
            out[end] = if is_digit { b'0' } else { kept };
            end += 1;
            place = if is_digit { behind_number(text, place) } else { place + 1 };
        }
        word(out, start..end, has_number);
    }
    end
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
