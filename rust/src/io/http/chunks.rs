//! Decodes a chunked response body (RFC 9112, 7.1) as it arrives.

/// Bytes of lines between two pieces of the body; no server needs more for a size, its extensions or a trailer.
const MOST_BETWEEN: usize = 4 << 10;

/// Which bytes come next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Size,
    Extension,
    Data,
    EndOfData,
    /// A line after the last chunk, of which so many bytes have arrived.
    Trailer(usize),
    Nothing,
}

/// A chunked body, received in part.
#[derive(Clone, Debug)]
pub struct Chunks {
    next: Next,
    /// Bytes of the chunk still to come; or its size, as far as its digits have arrived.
    left: u64,
    digits: usize,
    between: usize,
}

/// A malformed chunked body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl Default for Chunks {
    fn default() -> Self {
        Self { next: Next::Size, left: 0, digits: 0, between: 0 }
    }
}

impl Chunks {
    /// Whether the last byte has arrived.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.next == Next::Nothing
    }

    /// Takes the next piece of the body from `bytes`; None if more must arrive, or at the end.
    ///
    /// # Errors
    /// If the chunks are malformed.
    pub fn piece<'a>(&mut self, bytes: &mut &'a [u8]) -> Result<Option<&'a [u8]>, Malformed> {
        while self.next != Next::Nothing {
            if self.next == Next::Data {
                let count = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len());
                if count == 0 {
                    return Ok(None);
                }
                let (piece, rest) = bytes.split_at(count);
                *bytes = rest;
                self.left -= count as u64;
                (self.next, self.between) = (if self.left == 0 { Next::EndOfData } else { Next::Data }, 0);
                return Ok(Some(piece));
            }
            let Some((byte, rest)) = bytes.split_first() else { return Ok(None) };
            *bytes = rest;
            self.take(*byte)?;
        }
        Ok(None)
    }

    /// A byte that is not part of the body.
    fn take(&mut self, byte: u8) -> Result<(), Malformed> {
        self.between += 1;
        if self.between > MOST_BETWEEN {
            return Err(Malformed);
        }
        self.next = match (self.next, byte) {
            (Next::Size, b'\n') => self.sized()?,
            (Next::Size, b';' | b' ' | b'\t' | b'\r') => Next::Extension,
            (Next::Size, _) => self.digit(byte)?,
            (Next::Extension, b'\n') => self.sized()?,
            (Next::EndOfData, b'\r') => Next::EndOfData,
            (Next::EndOfData, b'\n') => {
                (self.left, self.digits) = (0, 0);
                Next::Size
            }
            (Next::Trailer(0), b'\n') => Next::Nothing,
            (Next::Trailer(_), b'\n') => Next::Trailer(0),
            (Next::Trailer(count), b'\r') => Next::Trailer(count),
            (Next::Trailer(count), _) => Next::Trailer(count + 1),
            (Next::Extension, _) => Next::Extension,
            (Next::EndOfData | Next::Data | Next::Nothing, _) => return Err(Malformed),
        };
        Ok(())
    }

    fn digit(&mut self, byte: u8) -> Result<Next, Malformed> {
        let digit = char::from(byte).to_digit(16).ok_or(Malformed)?;
        self.left = self.left.checked_mul(16).and_then(|size| size.checked_add(digit.into())).ok_or(Malformed)?;
        self.digits += 1;
        Ok(Next::Size)
    }

    /// The line with a chunk's size has ended.
    fn sized(&self) -> Result<Next, Malformed> {
        match (self.digits, self.left) {
            (0, _) => Err(Malformed),
            (_, 0) => Ok(Next::Trailer(0)),
            _ => Ok(Next::Data),
        }
    }
}
