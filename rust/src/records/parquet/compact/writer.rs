//! Writes structs, field by field.

use super::{BINARY, LIST};

/// Writes structs; the fields of each in ascending order.
#[derive(Default)]
pub struct Writer {
    out: Vec<u8>,
    last: Vec<u8>,
}

impl Writer {
    /// What was written.
    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        self.out
    }

    /// Begins a struct that is the whole, or a member of a list.
    pub fn begin(&mut self) {
        self.last.push(0);
    }

    /// Ends the innermost open struct.
    pub fn end(&mut self) {
        self.last.pop();
        self.out.push(0);
    }

    /// The head of a field, its value to follow.
    pub fn field(&mut self, number: u8, kind: u8) {
        let last = self.last.last_mut().map_or(0, |last| std::mem::replace(last, number));
        self.out.push((number - last) << 4 | kind);
    }

    /// A field that is a whole number.
    pub fn number(&mut self, number: u8, kind: u8, value: i64) {
        self.field(number, kind);
        self.zigzag(value);
    }

    /// A field that is bytes, or text.
    pub fn bytes(&mut self, number: u8, value: &[u8]) {
        self.field(number, BINARY);
        self.text(value);
    }

    /// A field that is a list, its members to follow.
    pub fn list(&mut self, number: u8, of: u8, count: usize) {
        self.field(number, LIST);
        match u8::try_from(count) {
            Ok(few @ 0..15) => self.out.push(few << 4 | of),
            _ => {
                self.out.push(0xF0 | of);
                self.varint(count as u64);
            }
        }
    }

    /// A member of a list that is bytes, or text.
    pub fn text(&mut self, value: &[u8]) {
        self.varint(value.len() as u64);
        self.raw(value);
    }

    /// A member of a list that is a whole number.
    pub fn zigzag(&mut self, value: i64) {
        self.varint((value << 1 ^ value >> 63).cast_unsigned());
    }

    /// Bytes that were written before.
    pub fn raw(&mut self, value: &[u8]) {
        self.out.extend_from_slice(value);
    }

    fn varint(&mut self, mut value: u64) {
        while value > 127 {
            self.out.push(value as u8 | 128);
            value >>= 7;
        }
        self.out.push(value as u8);
    }
}
