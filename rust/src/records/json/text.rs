//! Strings of JSON: where their plain bytes end, and what their escapes mean.

use memchr::memchr2;

use super::fault::Fault;

/// Words of 8 bytes of a string that are looked at one by one: most keys end within the first.
const SHORT_WORDS: usize = 4;
/// A string between its quotes.
#[derive(Debug, Clone, Copy)]
pub struct Text<'a> {
    /// Its bytes as they stand.
    pub raw: &'a [u8],
    /// Where they begin in the record.
    pub start: usize,
    /// Whether there are escapes in it.
    pub escaped: bool,
}

/// How many bytes there are before the next quote, backslash or control character, or the end.
#[inline(always)]
pub fn plain_bytes(bytes: &[u8]) -> usize {
    let (words, _) = bytes.as_chunks::<8>();
    let words = &words[..words.len().min(SHORT_WORDS)];
    for (number, word) in words.iter().enumerate() {
        let found = special_bytes(u64::from_le_bytes(*word));
        if found != 0 {
            return number * 8 + found.trailing_zeros() as usize / 8;
        }
    }
    let rest = &bytes[words.len() * 8..];
    let plain = memchr2(b'"', b'\\', rest).unwrap_or(rest.len());
    let least = rest[..plain].iter().fold(u8::MAX, |least, byte| least.min(*byte));
    let control = if least < 0x20 { rest.iter().position(|byte| *byte < 0x20) } else { None };
    words.len() * 8 + control.unwrap_or(plain)
}

/// The high bit of the first byte that is a quote, a backslash or below 0x20; bits above that one mean nothing. (Bit Twiddling
/// Hacks, "Determine if a word has a byte less than n".)
#[inline(always)]
const fn special_bytes(word: u64) -> u64 {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    let quote = word ^ (ONES * b'"' as u64);
    let backslash = word ^ (ONES * b'\\' as u64);
    let quotes = quote.wrapping_sub(ONES) & !quote;
    let backslashes = backslash.wrapping_sub(ONES) & !backslash;
    let controls = word.wrapping_sub(ONES * 0x20) & !word;
    (quotes | backslashes | controls) & (ONES * 0x80)
}

impl Text<'_> {
    /// Appends the text with its escapes resolved.
    ///
    /// # Errors
    /// If half a surrogate pair is escaped, which no text can hold.
    #[inline]
    pub fn push_to(&self, out: &mut Vec<u8>) -> Result<(), Fault> {
        if self.escaped {
            return self.unescape(out);
        }
        out.extend_from_slice(self.raw);
        Ok(())
    }

    fn unescape(&self, out: &mut Vec<u8>) -> Result<(), Fault> {
        let mut rest = self.raw;
        while let Some(found) = memchr::memchr(b'\\', rest) {
            out.extend_from_slice(&rest[..found]);
            let at = self.start + self.raw.len() - rest.len() + found;
            rest = &rest[found + 1..];
            let (byte, length) = match rest[0] {
                b'b' => (8, 1),
                b'f' => (12, 1),
                b'n' => (b'\n', 1),
                b'r' => (b'\r', 1),
                b't' => (b'\t', 1),
                b'u' => {
                    let (character, length) = escaped_character(rest)
                        .ok_or(Fault::Syntax { at, what: "half a surrogate pair, which is no character" })?;
                    out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                    rest = &rest[length..];
                    continue;
                }
                other => (other, 1),
            };
            out.push(byte);
            rest = &rest[length..];
        }
        out.extend_from_slice(rest);
        Ok(())
    }
}

/// The character of "uXXXX" or "uXXXX\uXXXX", and how many bytes it took.
fn escaped_character(rest: &[u8]) -> Option<(char, usize)> {
    let first = hex(&rest[1..])?;
    if !(0xD800..0xE000).contains(&first) {
        return Some((char::from_u32(first)?, 5));
    }
    let second = rest[5..].strip_prefix(b"\\u").and_then(hex)?;
    if first >= 0xDC00 || !(0xDC00..0xE000).contains(&second) {
        return None;
    }
    Some((char::from_u32(0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00))?, 11))
}

/// The value of four hexadecimal digits.
pub fn hex(bytes: &[u8]) -> Option<u32> {
    let digits = bytes.first_chunk::<4>()?;
    digits.iter().try_fold(0, |value, digit| Some(value << 4 | char::from(*digit).to_digit(16)?))
}
