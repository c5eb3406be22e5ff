//! What is split off a run of letters: in front, behind, and inside.

use super::super::characters::{Classes, class};
use super::tables::{CURRENCIES, UNITS};

/// Bytes that are split off in front: a character, dots, or a currency.
pub fn prefix(run: &str, classes: Classes) -> usize {
    let Some(first) = run.chars().next() else { return 0 };
    match first {
        'a'..='z' | '0'..='9' => 0,
        'A'..='Z' => ["US$", "C$", "A$"].iter().find(|one| run.starts_with(**one)).map_or(0, |one| one.len()),
        '+' => usize::from(!run[1..].starts_with(|one: char| one.is_ascii_digit())),
        '.' => Some(run.bytes().take_while(|&one| one == b'.').count()).filter(|&dots| dots > 1).unwrap_or(0),
        _ if classes.is(first, class::PREFIXES) => first.len_utf8(),
        _ => 0,
    }
}

/// Bytes that are split off behind: as many as any rule takes.
pub fn suffix(run: &str, classes: Classes) -> usize {
    let mut from_end = run.chars().rev();
    let Some(last) = from_end.next() else { return 0 };
    let before = from_end.next();
    let mut longest = 0;
    if classes.is(last, class::SUFFIXES) {
        longest = if run.ends_with("……") { 6 } else { last.len_utf8() };
    }
    match last {
        '.' => {
            let dots = run.bytes().rev().take_while(|&one| one == b'.').count();
            let mut is_split = || {
                let Some(before) = before else { return false };
                let third = from_end.next();
                let is = |one: Option<char>, of| one.is_some_and(|one| classes.is(one, of));
                is(Some(before), class::BEFORE_DOT)
                    || (is(Some(before), class::UPPER) && is(third, class::UPPER))
                    || (third == Some('°') && matches!(before, 'F' | 'f' | 'C' | 'c' | 'K' | 'k'))
            };
            longest = if dots > 1 { dots } else { usize::from(is_split()) };
        }
        '+' if before.is_some_and(|one| one.is_ascii_digit()) => longest = 1,
        's' | 'S' if matches!(before, Some('\'')) => longest = 2,
        's' | 'S' if matches!(before, Some('’')) => longest = 4,
        _ => {}
    }
    if is_ascii_letter_alone(last, before) {
        return longest;
    }
    behind_digit(run, UNITS).max(behind_digit(run, CURRENCIES)).max(longest)
}

/// Whether no unit can end here: letters of ASCII with no digit near.
fn is_ascii_letter_alone(last: char, before: Option<char>) -> bool {
    matches!(last, '.' | ',' | ')' | '"' | '\'' | ':' | ';' | '?' | '!' | '-' | '0'..='9')
        || (last.is_ascii_lowercase()
            && !matches!(last, 'm' | 'a' | 'd' | 'n' | 't' | 'g' | 'b' | 'z' | 's' | 'h' | 'r'))
        || before.is_none()
}

/// Bytes of the longest of some endings that stands behind a digit.
fn behind_digit(run: &str, endings: &[&str]) -> usize {
    let stands = |one: &&&str| {
        run.strip_suffix(**one).is_some_and(|rest| rest.as_bytes().last().is_some_and(u8::is_ascii_digit))
    };
    endings.iter().filter(stands).map(|one| one.len()).max().unwrap_or(0)
}

/// Cuts a run at what splits words inside: dots, symbols, hyphens and signs between letters.
pub fn split_inside(run: &str, classes: Classes, mut push: impl FnMut(usize, usize)) {
    let (mut start, mut place) = (0, 0);
    let mut before: Option<char> = None;
    while let Some(one) = run[place..].chars().next() {
        let width = if one.is_ascii_alphanumeric() { 0 } else { inside(&run[place..], one, before, classes) };
        if width == 0 {
            (before, place) = (Some(one), place + one.len_utf8());
            continue;
        }
        let end = place + width;
        if place > 0 {
            if place > start {
                push(start, place);
            }
            push(place, end);
            start = end;
        }
        before = run[place..end].chars().next_back();
        place = end;
    }
    if start < run.len() {
        push(start, run.len());
    }
}

/// Bytes of what splits a word where `rest` begins.
fn inside(rest: &str, one: char, before: Option<char>, classes: Classes) -> usize {
    let dots = rest.bytes().take_while(|&byte| byte == b'.').count();
    if dots > 1 {
        return dots;
    }
    if one == '…' || classes.is(one, class::ICONS) {
        return one.len_utf8();
    }
    let Some(before) = before else { return 0 };
    let width = one.len_utf8();
    let after = |width: usize| rest[width..].chars().next();
    let is = |given: Option<char>, of: u16| given.is_some_and(|given| classes.is(given, of));
    if matches!(one, '+' | '-' | '*' | '^')
        && before.is_ascii_digit()
        && after(width).is_some_and(|next| next.is_ascii_digit() || next == '-')
    {
        return width;
    }
    if one == '.' && classes.is(before, class::LOWER | class::QUOTES) && is(after(width), class::UPPER | class::QUOTES)
    {
        return width;
    }
    if one == ',' && classes.is(before, class::ALPHA) && is(after(width), class::ALPHA) {
        return width;
    }
    if !(classes.is(before, class::ALPHA) || before.is_ascii_digit()) {
        return 0;
    }
    let hyphens: &[&str] = match one {
        '-' => &["-", "--", "---"],
        '–' => &["–"],
        '—' => &["—", "——"],
        '~' => &["~"],
        ':' | '<' | '>' | '=' | '/' => return if is(after(1), class::ALPHA) { 1 } else { 0 },
        _ => return 0,
    };
    hyphens
        .iter()
        .find(|hyphen| rest.starts_with(**hyphen) && is(after(hyphen.len()), class::ALPHA))
        .map_or(0, |one| one.len())
}
