//! Text as it is compared: datatrove's `simplify_text`. Lower case, every number 0, no punctuation, single spaces, no accents.

use unicode_normalization::UnicodeNormalization;

use super::characters::{Classes, class, is_space};

/// Replaces `out` by the simplified text.
pub fn simplify(text: &str, classes: Classes, out: &mut String) {
    out.clear();
    if text.is_ascii() {
        let lower = text.bytes().map(|one| one.to_ascii_lowercase() as char);
        reduce(
            lower,
            |one| one.is_ascii_digit(),
            |one| matches!(one, '.' | ','),
            |one| !one.is_ascii_alphanumeric(),
            out,
        );
        return;
    }
    let mut reduced = String::with_capacity(text.len());
    let lower = text.to_lowercase();
    let is_point = |one| matches!(one, '.' | ',' | '،' | '٫' | '⎖' | '⎗' | '⎘');
    let is_gap = |one| classes.is(one, class::SPACED) || is_space(one);
    reduce(lower.chars(), |one| classes.is(one, class::DIGITS), is_point, is_gap, &mut reduced);
    out.extend(reduced.nfd().filter(|&one| !classes.is(one, class::MARKS)));
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
}
