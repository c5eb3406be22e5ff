//! The grammar of JSON (RFC 8259), and the words NaN, Infinity and -Infinity that Python's writer makes. Nothing is allocated,
//! and nesting is bounded.

use super::fault::Fault;
use super::text::{Text, hex, plain_bytes};

/// Levels of nesting that are followed.
const DEEPEST: usize = 1_024;

/// Digits of an integer that is taken as one; longer ones are floats.
const MOST_DIGITS: usize = 38;

/// A number as it stands.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    /// Without fraction and exponent, and of at most 38 digits.
    Integer(i128),
    /// Any other.
    Float(f64),
}

/// A place in a record that is known to be UTF-8.
#[derive(Debug, Clone)]
pub struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    /// At the record's beginning.
    #[must_use]
    pub const fn new(record: &'a str) -> Self {
        Self { bytes: record.as_bytes(), at: 0 }
    }

    /// Where it is.
    #[must_use]
    pub const fn at(&self) -> usize {
        self.at
    }

    /// Goes back to a place where it was.
    pub const fn back_to(&mut self, at: usize) {
        self.at = at;
    }

    /// What stands between two places.
    #[must_use]
    pub fn between(&self, start: usize, end: usize) -> &'a [u8] {
        &self.bytes[start..end]
    }

    /// The next byte that is no white space; 0 at the end.
    #[inline(always)]
    pub fn peek(&mut self) -> u8 {
        while let Some(byte) = self.bytes.get(self.at) {
            if !matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
                return *byte;
            }
            self.at += 1;
        }
        0
    }

    /// Goes behind the next byte if it is this one.
    #[inline(always)]
    pub fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == byte;
        self.at += usize::from(found);
        found
    }

    /// Goes behind a byte that must come next.
    ///
    /// # Errors
    /// If another one does; `what` says so.
    #[inline(always)]
    pub fn expect(&mut self, byte: u8, what: &'static str) -> Result<(), Fault> {
        if self.take(byte) { Ok(()) } else { Err(self.fault(what)) }
    }

    #[cold]
    const fn fault(&self, what: &'static str) -> Fault {
        Fault::Syntax { at: self.at, what }
    }

    /// The key of an object's next value, which comes next then.
    ///
    /// # Errors
    /// If there is none.
    #[inline]
    pub fn key(&mut self) -> Result<Text<'a>, Fault> {
        let key = self.string("a key in quotes is missing")?;
        self.expect(b':', "a colon is missing")?;
        Ok(key)
    }

    /// The next value, which must be a string.
    ///
    /// # Errors
    /// If it is none (`what` says so), is not closed, or has characters or escapes that JSON does not allow.
    #[inline]
    pub fn string(&mut self, what: &'static str) -> Result<Text<'a>, Fault> {
        self.expect(b'"', what)?;
        let start = self.at;
        let mut escaped = false;
        loop {
            self.at += plain_bytes(&self.bytes[self.at..]);
            match self.bytes.get(self.at) {
                Some(b'"') => break,
                Some(b'\\') => {
                    escaped = true;
                    self.at += self.escape()?;
                }
                Some(_) => return Err(self.fault("a control character in a string, which must be escaped")),
                None => return Err(Fault::Syntax { at: start - 1, what: "a string is not closed" }),
            }
        }
        let raw = &self.bytes[start..self.at];
        self.at += 1;
        Ok(Text { raw, start, escaped })
    }

    /// The bytes of the escape that begins here.
    fn escape(&self) -> Result<usize, Fault> {
        match self.bytes.get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(2),
            Some(b'u') if hex(&self.bytes[self.at + 2..]).is_some() => Ok(6),
            _ => Err(self.fault("an escape that JSON does not have")),
        }
    }

    /// The next value, which must be a number.
    ///
    /// # Errors
    /// If it is none, or is too large for a float.
    #[inline]
    pub fn number(&mut self) -> Result<Number, Fault> {
        self.peek();
        let start = self.at;
        if let Some(number) = self.scan_number()? {
            return Ok(number);
        }
        let text = std::str::from_utf8(&self.bytes[start..self.at]).unwrap_or_default();
        let number: f64 = text.parse().map_err(|_| self.fault("a number is missing"))?;
        // The text says a number, not Infinity: 1e999 is none that a float holds.
        if number.is_infinite() { Err(Fault::Range { at: start }) } else { Ok(Number::Float(number)) }
    }

    /// Goes behind a number; what it is, unless that takes more than its digits.
    fn scan_number(&mut self) -> Result<Option<Number>, Fault> {
        let negative = self.bytes.get(self.at) == Some(&b'-');
        self.at += usize::from(negative);
        let (digits, value) = self.digits();
        if digits == 0 {
            return self.word(negative).map(Some);
        }
        if digits > 1 && self.bytes[self.at - digits] == b'0' {
            return Err(self.fault("a number that begins with 0"));
        }
        if !matches!(self.bytes.get(self.at), Some(b'.' | b'e' | b'E')) && digits <= MOST_DIGITS {
            let value = if digits <= 19 { i128::from(value) } else { self.long_integer(digits) };
            return Ok(Some(Number::Integer(if negative { -value } else { value })));
        }
        if self.bytes.get(self.at) == Some(&b'.') {
            self.at += 1;
            if self.digits().0 == 0 {
                return Err(self.fault("a digit is missing"));
            }
        }
        if matches!(self.bytes.get(self.at), Some(b'e' | b'E')) {
            self.at += 1;
            self.at += usize::from(matches!(self.bytes.get(self.at), Some(b'+' | b'-')));
            if self.digits().0 == 0 {
                return Err(self.fault("a digit is missing"));
            }
        }
        Ok(None)
    }

    #[cold]
    fn long_integer(&self, digits: usize) -> i128 {
        self.bytes[self.at - digits..self.at].iter().fold(0, |value, digit| value * 10 + i128::from(digit - b'0'))
    }

    /// How many digits stand here, and the value of the first 19 of them.
    #[inline(always)]
    fn digits(&mut self) -> (usize, u64) {
        let start = self.at;
        let mut value = 0_u64;
        while let Some(byte @ b'0'..=b'9') = self.bytes.get(self.at) {
            if self.at - start < 19 {
                value = value * 10 + u64::from(byte - b'0');
            }
            self.at += 1;
        }
        (self.at - start, value)
    }

    #[cold]
    fn word(&mut self, negative: bool) -> Result<Number, Fault> {
        let rest = &self.bytes[self.at..];
        let (length, value) = match rest {
            _ if rest.starts_with(b"NaN") && !negative => (3, f64::NAN),
            _ if rest.starts_with(b"Infinity") => (8, if negative { f64::NEG_INFINITY } else { f64::INFINITY }),
            _ => return Err(self.fault("a value is missing")),
        };
        self.at += length;
        Ok(Number::Float(value))
    }

    /// Goes behind true, false or null: the word that begins with the next byte.
    ///
    /// # Errors
    /// If it is none of them.
    #[inline]
    pub fn literal(&mut self) -> Result<(), Fault> {
        let word: &[u8] = match self.peek() {
            b't' => b"true",
            b'f' => b"false",
            _ => b"null",
        };
        if !self.bytes[self.at..].starts_with(word) {
            return Err(self.fault("a value is missing"));
        }
        self.at += word.len();
        Ok(())
    }

    /// Goes behind the next value, whatever it is.
    ///
    /// # Errors
    /// If it is not JSON, or nested deeper than 1,024 levels.
    pub fn skip(&mut self) -> Result<(), Fault> {
        let mut objects = [0_u64; DEEPEST / 64];
        let mut depth = 0;
        loop {
            let opened = self.peek();
            match opened {
                b'{' | b'[' => {
                    let object = opened == b'{';
                    self.at += 1;
                    if !self.take(if object { b'}' } else { b']' }) {
                        if depth == DEEPEST {
                            return Err(self.fault("values are nested deeper than 1,024 levels"));
                        }
                        let bit = 1 << (depth % 64);
                        objects[depth / 64] = objects[depth / 64] & !bit | if object { bit } else { 0 };
                        depth += 1;
                        if object {
                            self.key()?;
                        }
                        continue;
                    }
                }
                b'"' => _ = self.string("")?,
                b't' | b'f' | b'n' => self.literal()?,
                _ => _ = self.scan_number()?,
            }
            loop {
                if depth == 0 {
                    return Ok(());
                }
                let object = objects[(depth - 1) / 64] >> ((depth - 1) % 64) & 1 == 1;
                if self.take(b',') {
                    if object {
                        self.key()?;
                    }
                    break;
                }
                self.expect(if object { b'}' } else { b']' }, "a comma or a closing bracket is missing")?;
                depth -= 1;
            }
        }
    }
}
