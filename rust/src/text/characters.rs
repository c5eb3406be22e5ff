//! Characters and lines as Python knows them: white space, `splitlines`, and the classes of `words/tables.rs`.

use std::sync::LazyLock;

use super::words::tables;

/// Classes of a character, a bit each.
pub mod class {
    /// Letters of spaCy.
    pub const ALPHA: u16 = 1;
    /// Its lower-case letters, and those without case.
    pub const LOWER: u16 = 1 << 1;
    /// Its upper-case letters, and those without case.
    pub const UPPER: u16 = 1 << 2;
    /// Its symbols.
    pub const ICONS: u16 = 1 << 3;
    /// Its quotes.
    pub const QUOTES: u16 = 1 << 4;
    /// What it splits off in front.
    pub const PREFIXES: u16 = 1 << 5;
    /// What it splits off behind.
    pub const SUFFIXES: u16 = 1 << 6;
    /// Behind which it splits off a dot.
    pub const BEFORE_DOT: u16 = 1 << 7;
    /// What Python calls alphabetic.
    pub const LETTERS: u16 = 1 << 8;
    /// Nonspacing marks.
    pub const MARKS: u16 = 1 << 9;
    /// Decimal digits.
    pub const DIGITS: u16 = 1 << 10;
    /// Unicode's categories of punctuation.
    pub const PUNCTUATION_CATEGORY: u16 = 1 << 11;
    /// What datatrove replaces by a space.
    pub const SPACED: u16 = 1 << 12;
    /// What datatrove calls punctuation.
    pub const PUNCTUATION: u16 = 1 << 13;
    /// What ends a sentence for datatrove.
    pub const STOPS: u16 = 1 << 14;
    /// What ends a sentence for spaCy.
    pub const SENTENCE_ENDS: u16 = 1 << 15;
}

static CLASSES: LazyLock<Vec<u16>> = LazyLock::new(|| {
    let mut classes = vec![0; 0x11_0000];
    let all = [
        tables::ALPHA,
        tables::LOWER,
        tables::UPPER,
        tables::ICONS,
        tables::QUOTES,
        tables::PREFIXES,
        tables::SUFFIXES,
        tables::BEFORE_DOT,
        tables::LETTERS,
        tables::MARKS,
        tables::DIGITS,
        tables::PUNCTUATION_CATEGORY,
        tables::SPACED,
        tables::PUNCTUATION,
        tables::STOPS,
        tables::SENTENCE_ENDS,
    ];
    for (bit, table) in all.into_iter().enumerate() {
        for &(first, last) in table {
            classes[first as usize..=last as usize].iter_mut().for_each(|one| *one |= 1 << bit);
        }
    }
    classes
});

/// The classes of every character.
#[derive(Clone, Copy)]
pub struct Classes(&'static [u16]);

impl Classes {
    /// The table, made at first use.
    #[must_use]
    pub fn get() -> Self {
        Self(&CLASSES)
    }

    /// Whether a character is of a class.
    #[must_use]
    pub fn is(self, one: char, class: u16) -> bool {
        self.0[one as usize] & class != 0
    }
}

/// Python's `str.isspace`: Unicode's white space, and the four separators of ASCII.
#[must_use]
pub fn is_space(one: char) -> bool {
    one.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&one)
}

/// The same of a byte of ASCII.
#[must_use]
pub fn is_ascii_space(one: u8) -> bool {
    matches!(one, b'\t'..=b'\r' | 0x1c..=b' ')
}

/// Python's `str.strip`.
#[must_use]
pub fn strip(text: &str) -> &str {
    text.trim_matches(is_space)
}

/// Python's `str.split`: the words between white space.
pub fn split(text: &str) -> impl Iterator<Item = &str> {
    text.split(is_space).filter(|one| !one.is_empty())
}

/// Characters of a text.
#[must_use]
pub fn length(text: &str) -> usize {
    if text.len() < 16 { text.bytes().filter(|&one| one as i8 >= -64).count() } else { text.chars().count() }
}

/// Python's `str.splitlines`.
pub fn lines(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let Some(end) = line_end(rest) else { return Some(std::mem::take(&mut rest)) };
        let (line, behind) = rest.split_at(end);
        let mut skipped = behind.chars();
        if skipped.next() == Some('\r') && behind[1..].starts_with('\n') {
            skipped.next();
        }
        rest = skipped.as_str();
        Some(line)
    })
}

/// Where the first character that ends a line stands. Blocks without a byte that may begin one are passed over whole.
fn line_end(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let ends = |place: usize| match bytes[place] {
        b'\n'..=b'\r' | 0x1c..=0x1e => true,
        0xc2 => bytes[place + 1] == 0x85,
        0xe2 => bytes[place + 1] == 0x80 && matches!(bytes[place + 2], 0xa8 | 0xa9),
        _ => false,
    };
    let may_end = |one: u8| one.wrapping_sub(b'\n') <= 0x14 || one == 0xc2 || one == 0xe2;
    let mut place = 0;
    while let Some(block) = bytes[place..].first_chunk::<32>() {
        if block.iter().fold(false, |found, &one| found | may_end(one))
            && let Some(end) = (place..place + 32).find(|&place| ends(place))
        {
            return Some(end);
        }
        place += 32;
    }
    (place..bytes.len()).find(|&place| ends(place))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_pythons() {
        let found: Vec<_> = lines("a\r\nb\n\nc\u{2028}d\u{85}e\x1cf\rg\n").collect();
        assert_eq!(found, ["a", "b", "", "c", "d", "e", "f", "g"]);
        let long = format!("{}\u{2028}{}\r\n{}", "\u{e9}".repeat(20), "x".repeat(31), "\u{2014}".repeat(50));
        assert_eq!(lines(&long).map(str::len).collect::<Vec<_>>(), [40, 31, 150]);
        assert_eq!(lines("").count(), 0);
        assert_eq!(lines("\n").collect::<Vec<_>>(), [""]);
    }

    #[test]
    fn words_are_between_pythons_white_space() {
        assert_eq!(split(" a\u{a0}b\x1fc ").collect::<Vec<_>>(), ["a", "b", "c"]);
        assert_eq!(strip("\u{3000}a \x1f"), "a");
    }
}
