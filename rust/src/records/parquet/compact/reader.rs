//! Reads structs, field by field.

use super::{BINARY, BYTE, DOUBLE, FALSE, Fault, LIST, LONG, MAP, SET, SHORTEST_NUMBER, STRUCT, TRUE, UUID};

/// Structs inside structs; Parquet has no more than six.
const DEPTH: u8 = 16;

/// A value's first byte says of which kind it is; what is read of another kind is a fault.
pub struct Reader<'a> {
    data: &'a [u8],
    at: usize,
    depth: u8,
}

impl<'a> Reader<'a> {
    /// A reader of a struct that begins with the first byte.
    #[must_use]
    pub fn new(data: &'a [u8]) -> Self {
        Self { data, at: 0, depth: 0 }
    }

    /// The place of the next byte.
    #[must_use]
    pub fn at(&self) -> usize {
        self.at
    }

    /// What is wrong here.
    #[must_use]
    pub fn fault(&self, found: &'static str) -> Fault {
        Fault { at: self.at, found }
    }

    /// Reads a struct: `field` gets every field's number and kind, and reads its value or skips it.
    ///
    /// # Errors
    /// Bytes that are no struct, structs that lie too deep, and what `field` says.
    pub fn fields(&mut self, mut field: impl FnMut(&mut Self, i64, u8) -> Result<(), Fault>) -> Result<(), Fault> {
        self.descend()?;
        let mut number = 0_i64;
        loop {
            let head = self.byte()?;
            if head == 0 {
                self.depth -= 1;
                return Ok(());
            }
            number = if head >> 4 == 0 { self.zigzag()? } else { number.wrapping_add(i64::from(head >> 4)) };
            field(self, number, head & 15)?;
        }
    }

    /// Reads a list of values of one kind.
    ///
    /// # Errors
    /// No list, one of another kind or of more values than there are bytes, and what `value` says.
    pub fn list(
        &mut self,
        kind: u8,
        of: u8,
        mut value: impl FnMut(&mut Self) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        self.expect(kind == LIST)?;
        let (count, found) = self.list_head()?;
        self.expect(count == 0 || found == of || (of == TRUE && found == FALSE))?;
        for _ in 0..count {
            value(self)?;
        }
        Ok(())
    }

    /// Reads a whole number.
    ///
    /// # Errors
    /// A value of another kind.
    pub fn number(&mut self, kind: u8) -> Result<i64, Fault> {
        self.expect((SHORTEST_NUMBER..=LONG).contains(&kind))?;
        self.zigzag()
    }

    /// Reads a truth value that is a field: its kind is its value.
    ///
    /// # Errors
    /// A value of another kind.
    pub fn truth(&mut self, kind: u8) -> Result<bool, Fault> {
        self.expect(kind == TRUE || kind == FALSE)?;
        Ok(kind == TRUE)
    }

    /// Reads a list of truth values, a byte each.
    ///
    /// # Errors
    /// A value of another kind.
    pub fn truths(&mut self, kind: u8) -> Result<Vec<bool>, Fault> {
        let mut found = Vec::new();
        self.list(kind, TRUE, |reader| {
            found.push(reader.byte()? == TRUE);
            Ok(())
        })?;
        Ok(found)
    }

    /// Reads a list of whole numbers.
    ///
    /// # Errors
    /// A value of another kind, numbers of another size.
    pub fn numbers(&mut self, kind: u8, of: u8) -> Result<Vec<i64>, Fault> {
        let mut found = Vec::new();
        self.list(kind, of, |reader| {
            found.push(reader.zigzag()?);
            Ok(())
        })?;
        Ok(found)
    }

    /// Reads bytes, or text.
    ///
    /// # Errors
    /// A value of another kind, or more bytes than there are.
    pub fn bytes(&mut self, kind: u8) -> Result<&'a [u8], Fault> {
        self.expect(kind == BINARY)?;
        let length = self.count()?;
        self.take(length)
    }

    /// Goes past a value.
    ///
    /// # Errors
    /// Bytes that are no value of this kind.
    pub fn skip(&mut self, kind: u8) -> Result<(), Fault> {
        match kind {
            TRUE | FALSE => Ok(()),
            BYTE => self.byte().map(drop),
            SHORTEST_NUMBER..=LONG => self.varint().map(drop),
            DOUBLE => self.take(8).map(drop),
            UUID => self.take(16).map(drop),
            BINARY => self.bytes(kind).map(drop),
            STRUCT => self.fields(|reader, _, kind| reader.skip(kind)),
            LIST | SET => {
                self.descend()?;
                let (count, of) = self.list_head()?;
                for _ in 0..count {
                    self.skip_member(of)?;
                }
                self.depth -= 1;
                Ok(())
            }
            MAP => {
                self.descend()?;
                let count = self.count()?;
                let kinds = if count > 0 { self.byte()? } else { 0 };
                for _ in 0..count {
                    self.skip_member(kinds >> 4)?;
                    self.skip_member(kinds & 15)?;
                }
                self.depth -= 1;
                Ok(())
            }
            _ => Err(self.fault("no value is of this kind")),
        }
    }

    /// In lists and maps a truth value is a byte.
    fn skip_member(&mut self, kind: u8) -> Result<(), Fault> {
        self.skip(if kind == TRUE || kind == FALSE { BYTE } else { kind })
    }

    fn descend(&mut self) -> Result<(), Fault> {
        self.depth += 1;
        if self.depth > DEPTH { Err(self.fault("structs inside structs")) } else { Ok(()) }
    }

    fn list_head(&mut self) -> Result<(usize, u8), Fault> {
        let head = self.byte()?;
        if head >> 4 == 15 {
            return Ok((self.count()?, head & 15));
        }
        let count = usize::from(head >> 4);
        self.expect(count <= self.data.len() - self.at)?;
        Ok((count, head & 15))
    }

    /// A number of values; each of them takes a byte at least.
    fn count(&mut self) -> Result<usize, Fault> {
        let count = usize::try_from(self.varint()?).unwrap_or(usize::MAX);
        if count > self.data.len() - self.at { Err(self.fault("more values than bytes")) } else { Ok(count) }
    }

    fn expect(&self, is: bool) -> Result<(), Fault> {
        if is { Ok(()) } else { Err(self.fault("a value of another kind")) }
    }

    fn byte(&mut self) -> Result<u8, Fault> {
        let byte = *self.data.get(self.at).ok_or_else(|| self.fault("it ends too early"))?;
        self.at += 1;
        Ok(byte)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Fault> {
        let found = self.data[self.at..].get(..length).ok_or_else(|| self.fault("it ends too early"))?;
        self.at += length;
        Ok(found)
    }

    fn varint(&mut self) -> Result<u64, Fault> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 127) << shift;
            if byte < 128 {
                return Ok(value);
            }
        }
        Err(self.fault("a number without an end"))
    }

    /// 0, -1, 1 and -2 are written as 0, 1, 2 and 3.
    fn zigzag(&mut self) -> Result<i64, Fault> {
        let value = self.varint()?;
        Ok((value >> 1).cast_signed() ^ -((value & 1).cast_signed()))
    }
}
