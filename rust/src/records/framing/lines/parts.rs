//! Where lines end in a part of a file.

use memchr::{memchr, memchr_iter, memchr2};

use super::Blank;

/// Where lines end in a part of a file.
#[derive(Debug, Default)]
pub(super) struct Part {
    /// Behind each "\n" that ends a record; behind the first of all, too.
    pub(super) ends: Vec<u32>,
    pub(super) bytes: u32,
    /// Whether what stands before the first "\n" (or everything, without one) is blank.
    pub(super) head_blank: bool,
    /// The same of what stands behind the last.
    pub(super) tail_blank: bool,
    /// Whether a quote is open at the end.
    pub(super) open: bool,
}

/// The lines of a part of a file that has no quotes.
pub(super) fn plain_part(chunk: &[u8], blank: Blank) -> Part {
    let mut part = Part { bytes: chunk.len() as u32, ..Part::default() };
    if blank == Blank::Kept {
        part.ends = memchr_iter(b'\n', chunk).map(|place| place as u32 + 1).collect();
        return part;
    }
    let mut begin = 0;
    for place in memchr_iter(b'\n', chunk) {
        let is_blank = is_blank(&chunk[begin..place], blank);
        if begin == 0 {
            part.head_blank = is_blank;
        }
        if begin == 0 || !is_blank {
            part.ends.push(place as u32 + 1);
        }
        begin = place + 1;
    }
    part.tail_blank = is_blank(&chunk[begin..], blank);
    if begin == 0 {
        part.head_blank = part.tail_blank;
    }
    part
}

fn is_blank(line: &[u8], blank: Blank) -> bool {
    match blank {
        Blank::Kept => false,
        Blank::Empty => matches!(line, [] | b"\r"),
        Blank::White => line.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n')),
    }
}

/// Where in a CSV file the reader is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Outside quotes.
    Open,
    /// Inside quotes.
    Quoted,
    /// Behind a quote inside quotes: the end of them, or the first of two that stand for one.
    Quote,
}

/// Finds the records of a CSV file, part after part.
pub(super) struct Table {
    /// None where quotes mean nothing.
    quoted: Option<u8>,
    blank: Blank,
    place: Place,
    /// The byte before the next one, "\n" at the beginning.
    before: u8,
    /// Bytes of the record so far, as far as it matters for whether it is blank.
    seen: usize,
}

impl Table {
    pub(super) const fn new(quoted: Option<u8>, blank: Blank) -> Self {
        Self { quoted, blank, place: Place::Open, before: b'\n', seen: 0 }
    }

    pub(super) fn part(&mut self, chunk: &[u8]) -> Part {
        let mut part = Part { bytes: chunk.len() as u32, ..Part::default() };
        let (mut at, mut begin) = (0, 0);
        while at < chunk.len() {
            match self.place {
                Place::Quoted => match memchr(b'"', &chunk[at..]) {
                    Some(found) => (at, self.place) = (at + found + 1, Place::Quote),
                    None => at = chunk.len(),
                },
                Place::Quote if chunk[at] == b'"' => (at, self.place) = (at + 1, Place::Quoted),
                Place::Quote => self.place = Place::Open,
                Place::Open => match self
                    .quoted
                    .map_or_else(|| memchr(b'\n', &chunk[at..]), |_| memchr2(b'"', b'\n', &chunk[at..]))
                {
                    None => at = chunk.len(),
                    Some(found) => {
                        let found = at + found;
                        let before = if found == 0 { self.before } else { chunk[found - 1] };
                        at = found + 1;
                        if chunk[found] == b'"' {
                            if before == b'\n' || Some(before) == self.quoted {
                                self.place = Place::Quoted;
                            }
                        } else {
                            if !self.is_blank(self.seen + found - begin, before) {
                                part.ends.push(at as u32);
                            }
                            (self.seen, begin) = (0, at);
                        }
                    }
                },
            }
        }
        self.seen += chunk.len() - begin;
        self.before = chunk.last().copied().unwrap_or(self.before);
        part.tail_blank = self.is_blank(self.seen, self.before);
        part.open = self.place == Place::Quoted;
        part
    }

    const fn is_blank(&self, bytes: usize, last: u8) -> bool {
        matches!(self.blank, Blank::Empty) && (bytes == 0 || bytes == 1 && last == b'\r')
    }
}
