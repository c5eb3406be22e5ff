//! From member to member, over a file or over a part of one that was read before.

use super::bytes::Bytes;
use super::header::{BLOCK_BYTES, Block, Header, is_zero, parse, until_zero};
use super::pax;
use crate::core::errors::Trouble;

/// Bytes that a long name or an extended header may have.
const NAME_BYTES: u64 = 1 << 20;

/// One member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member<'a> {
    /// Where its first header begins, its extended headers included.
    pub start: u64,
    /// Its name.
    pub name: &'a str,
    /// Whether it is a file; the others are folders.
    pub is_file: bool,
    /// Where its data begins.
    pub data: u64,
    /// Bytes of its data.
    pub size: u64,
}

/// A place in an archive, before a member.
#[derive(Debug)]
pub struct Walk {
    at: u64,
    has_end: bool,
    name: Vec<u8>,
}

/// What the header at a place turned out to be.
enum Step {
    Member { is_file: bool },
    Before,
}

/// What the headers before a member's own say of it.
#[derive(Default)]
struct Before {
    has_name: bool,
    size: Option<u64>,
}

impl Walk {
    /// At the front of an archive.
    #[must_use]
    pub const fn archive() -> Self {
        Self { at: 0, has_end: true, name: Vec::new() }
    }

    /// At the front of a part of an archive that begins and ends between members.
    #[must_use]
    pub const fn part() -> Self {
        Self { at: 0, has_end: false, name: Vec::new() }
    }

    /// Starts again with another part.
    pub fn restart(&mut self) {
        self.at = 0;
    }

    /// Where the next member begins, or what follows the last one.
    #[must_use]
    pub const fn at(&self) -> u64 {
        self.at
    }

    /// The next member, or None at the end.
    ///
    /// # Errors
    /// At the first header that is damaged, of a kind that is not read, or whose data is longer than the rest.
    #[inline]
    pub fn next(&mut self, bytes: &mut impl Bytes) -> Result<Option<Member<'_>>, Trouble> {
        let (start, mut before) = (self.at, Before::default());
        loop {
            let at = self.at;
            if at == bytes.size() && !self.has_end && at == start {
                return Ok(None);
            }
            if bytes.size() - at < BLOCK_BYTES as u64 {
                return Err(truncated(at, bytes.size()));
            }
            let block: Block = bytes.get(at, BLOCK_BYTES)?.try_into().unwrap_or([0; BLOCK_BYTES]);
            if is_zero(&block) {
                return self.end(bytes, at == start).map(|()| None);
            }
            let header = parse(&block).map_err(|found| damaged(at, found))?;
            let step = self.step(bytes, at, &header, &mut before)?;
            if let Step::Member { is_file } = step {
                let size = if is_file { before.size.unwrap_or(header.size) } else { 0 };
                let data = at + BLOCK_BYTES as u64;
                self.at = after(data, size, bytes.size()).ok_or_else(|| too_long(at, size, bytes.size() - data))?;
                let name = std::str::from_utf8(&self.name).map_err(|_| not_text(at))?;
                return Ok(Some(Member { start, name, is_file, data, size }));
            }
        }
    }

    /// Reads one header and stores what it says of the member; skips headers before a member's own.
    #[inline]
    fn step(
        &mut self,
        bytes: &mut impl Bytes,
        at: u64,
        header: &Header<'_>,
        before: &mut Before,
    ) -> Result<Step, Trouble> {
        let kind = header.kind;
        match kind {
            b'0' | b'\0' | b'7' | b'5' => {
                if !before.has_name {
                    self.name.clear();
                    if !header.prefix.is_empty() {
                        self.name.extend_from_slice(header.prefix);
                        self.name.push(b'/');
                    }
                    self.name.extend_from_slice(header.name);
                }
                // Before there were type flags, a folder was a file whose name ends with a slash.
                let is_file = kind != b'5' && !(kind == 0 && self.name.last() == Some(&b'/'));
                Ok(Step::Member { is_file })
            }
            b'x' | b'X' | b'L' | b'K' | b'g' => {
                let data = at + BLOCK_BYTES as u64;
                let next = after(data, header.size, bytes.size())
                    .ok_or_else(|| too_long(at, header.size, bytes.size() - data))?;
                if header.size > NAME_BYTES {
                    return Err(damaged(at, format!("a header of {} bytes before a member's own", header.size)));
                }
                self.read_before(bytes.get(data, header.size as usize)?, kind, at, before)?;
                self.at = next;
                Ok(Step::Before)
            }
            b'V' => {
                self.at = at + BLOCK_BYTES as u64;
                Ok(Step::Before)
            }
            _ => Err(not_read(at, kind, header.name)),
        }
    }

    /// Keeps what an extended header or a long name says.
    fn read_before(&mut self, text: &[u8], kind: u8, at: u64, before: &mut Before) -> Result<(), Trouble> {
        match kind {
            b'L' => {
                self.name.clear();
                self.name.extend_from_slice(until_zero(text));
                before.has_name = true;
            }
            b'K' => {}
            _ => {
                let found = pax::parse(text).map_err(|found| damaged(at, found))?;
                if found.sparse {
                    return Err(sparse(at));
                }
                if kind == b'g' && found != pax::Extended::default() {
                    return Err(damaged(at, "a global header that gives all members one name or size".to_owned()));
                }
                before.size = found.size.or(before.size);
                if let Some(path) = found.path {
                    self.name.clear();
                    self.name.extend_from_slice(path);
                    before.has_name = true;
                }
            }
        }
        Ok(())
    }

    /// At a block of zeros: everything that follows must be zeros too.
    fn end(&mut self, bytes: &mut impl Bytes, between: bool) -> Result<(), Trouble> {
        const LOOK_BYTES: u64 = 64 << 10;
        let mut at = self.at;
        if !self.has_end || !between {
            return Err(damaged(at, "zeros where a header belongs".to_owned()));
        }
        while at < bytes.size() {
            let length = (bytes.size() - at).min(LOOK_BYTES) as usize;
            if let Some(place) = bytes.get(at, length)?.iter().position(|&byte| byte != 0) {
                let found = "the archive ends before it, and more follows".to_owned();
                let remedy =
                    "if archives were joined with cat, keep them as files of their own; else copy the file again";
                return Err(Trouble::data(place_of(at + place as u64), found, remedy));
            }
            at += length as u64;
        }
        Ok(())
    }
}

/// Where the header after `size` bytes of data lies, if it can.
#[inline]
fn after(data: u64, size: u64, end: u64) -> Option<u64> {
    let padded = size.checked_next_multiple_of(BLOCK_BYTES as u64)?;
    data.checked_add(padded).filter(|&next| next <= end)
}

/// A place for messages.
pub fn place_of(at: u64) -> String {
    format!("byte {at}")
}

const DAMAGED: &str = "the file is damaged: copy or write it again";

#[cold]
fn damaged(at: u64, found: String) -> Trouble {
    let remedy = if at == 0 { "this is not a tar archive, or its beginning is damaged" } else { DAMAGED };
    Trouble::data(place_of(at), found, remedy)
}

#[cold]
fn sparse(at: u64) -> Trouble {
    Trouble::data(
        place_of(at),
        "a sparse member, whose holes are not in the archive",
        "write the archive without tar --sparse",
    )
}

#[cold]
fn truncated(at: u64, size: u64) -> Trouble {
    let found = format!("the end of the file, {} bytes on, where a header or a block of zeros belongs", size - at);
    let remedy = "the file is truncated: copy or write it again (or, if its writer leaves the end away, append zeros: \
                  truncate -s +1024 FILE)";
    Trouble::data(place_of(at), found, remedy)
}

#[cold]
fn too_long(at: u64, size: u64, rest: u64) -> Trouble {
    let found = format!("a member of {size} bytes, {rest} are left");
    Trouble::data(place_of(at), found, "the file is truncated: copy or write it again")
}

#[cold]
fn not_text(at: u64) -> Trouble {
    Trouble::data(place_of(at), "a name that is not UTF-8", "name the members in UTF-8 and write the file again")
}

#[cold]
fn not_read(at: u64, kind: u8, name: &[u8]) -> Trouble {
    let name = String::from_utf8_lossy(name);
    let (what, remedy) = match kind {
        b'1' => ("a hard link, which holds no data", "write the archive with tar --hard-dereference"),
        b'2' => ("a symbolic link, which holds no data", "write the archive with tar --dereference"),
        b'S' => ("sparse, so that its holes are not in the archive", "write the archive without tar --sparse"),
        b'3' | b'4' | b'6' => ("a device or pipe, which holds no data", "write the archive without it"),
        _ => ("of a kind that no dataset has", "write the archive again, as plain files"),
    };
    Trouble::data(place_of(at), format!("member {name:?} (type {:?}) is {what}", char::from(kind)), remedy)
}
