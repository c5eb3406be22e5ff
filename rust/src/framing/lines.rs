//! Lines as records: plain text, JSON lines, and CSV as RFC 4180 and its readers have it.
//!
//! A record ends behind its "\n" (so "\r\n" ends one as well), the last one at the end of the file. Where blank lines are
//! no records, they belong to the record that follows, or to the last one, so that records lie without gaps. A byte order
//! mark of UTF-8 belongs to none.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use memchr::{memchr, memchr_iter, memchr2};

use super::index::open_listed;
use super::{FileTrouble, Progress, Trouble, for_each_file, place_of};

/// Bytes that one task looks at; small enough for its positions to be u32.
const CHUNK_BYTES: u64 = 4 << 20;
const UTF8_MARK: &[u8] = b"\xEF\xBB\xBF";
const UTF16_MARKS: [&[u8]; 2] = [b"\xFF\xFE", b"\xFE\xFF"];

/// Which lines are no records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blank {
    /// None: an empty line is a record.
    Kept,
    /// Empty ones.
    Empty,
    /// Those of white space only.
    White,
}

/// What a record is.
#[derive(Debug, Clone, Copy)]
pub struct Style {
    /// Which lines are no records.
    pub blank: Blank,
    /// The byte between fields, where "\n" inside quotes ends no record. A quote opens only where a field begins.
    pub quoted: Option<u8>,
    /// Whether the first record is a header, which is left out.
    pub header: bool,
}

impl Style {
    /// Whether a file must be followed from its beginning.
    fn is_table(self) -> bool {
        self.quoted.is_some() || self.blank == Blank::Empty
    }
}

/// The records of one file.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Lines {
    /// Where the first record begins.
    pub start: i64,
    /// The length of each, its line end included.
    pub lengths: Vec<i64>,
}

/// Where lines end in a part of a file.
#[derive(Debug, Default)]
struct Part {
    /// Behind each "\n" that ends a record; behind the first of all, too.
    ends: Vec<u32>,
    bytes: u32,
    /// Whether what stands before the first "\n" (or everything, without one) is blank.
    head_blank: bool,
    /// The same of what stands behind the last.
    tail_blank: bool,
    /// Whether a quote is open at the end.
    open: bool,
}

/// The lines of a part of a file that has no quotes.
fn plain_part(chunk: &[u8], blank: Blank) -> Part {
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
struct Table {
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
    const fn new(quoted: Option<u8>, blank: Blank) -> Self {
        Self { quoted, blank, place: Place::Open, before: b'\n', seen: 0 }
    }

    fn part(&mut self, chunk: &[u8]) -> Part {
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

/// The records of a file, of its parts in order.
fn join(start: u64, parts: &[Part], style: Style, record_bytes: u64) -> Result<Lines, Trouble> {
    let count = parts.iter().map(|part| part.ends.len()).sum::<usize>() + 1;
    let mut lines = Lines { start: start as i64, lengths: Vec::with_capacity(count) };
    let (mut before, mut at, mut blank) = (start, start, style.blank != Blank::Kept);
    let mut header = style.header;
    let mut end_record = |end: u64, before: &mut u64, lines: &mut Lines| {
        let length = end - *before;
        if length > record_bytes {
            let found = format!("a line of {length} bytes, the limit is {record_bytes}");
            let remedy = "raise Limits.record_bytes if the file can be trusted";
            return Err(Trouble::data(place_of(lines.lengths.len() as u64, *before), found, remedy));
        }
        if std::mem::take(&mut header) {
            lines.start = end as i64;
        } else {
            lines.lengths.push(length as i64);
        }
        *before = end;
        Ok(())
    };
    for part in parts {
        let first = usize::from(blank && part.head_blank && !part.ends.is_empty());
        for &end in &part.ends[first..] {
            end_record(at + u64::from(end), &mut before, &mut lines)?;
        }
        blank = part.tail_blank && (blank || !part.ends.is_empty());
        at += u64::from(part.bytes);
    }
    if parts.last().is_some_and(|part| part.open) {
        return Err(Trouble::data(
            place_of(lines.lengths.len() as u64, before),
            "a quote is opened and never closed",
            "the file is truncated or damaged here; where quotes mean nothing, pass quotes=False",
        ));
    }
    if at > before && !(style.blank != Blank::Kept && blank) {
        end_record(at, &mut before, &mut lines)?;
    } else if let Some(last) = lines.lengths.last_mut() {
        *last += (at - before) as i64;
    }
    Ok(lines)
}

/// Where the text begins: behind a byte order mark.
fn text_start(file: &File, size: u64) -> Result<u64, Trouble> {
    let mut head = vec![0; 3.min(size as usize)];
    file.read_exact_at(&mut head, 0)?;
    if UTF16_MARKS.iter().any(|mark| head.starts_with(mark)) {
        return Err(Trouble::data("byte 0", "the byte order mark of UTF-16", "convert the file to UTF-8"));
    }
    Ok(if head == UTF8_MARK { 3 } else { 0 })
}

/// One task: a part of a file, or all parts of one whose quotes must be followed from the beginning.
fn scan(path: &Path, size: u64, first: u64, end: u64, style: Style, progress: &Progress) -> Result<Vec<Part>, Trouble> {
    let file = open_listed(path, size)?;
    let start = text_start(&file, size)?;
    let mut table = style.is_table().then(|| Table::new(style.quoted, style.blank));
    let mut buffer = vec![0; CHUNK_BYTES.min(end - first) as usize];
    let mut parts = Vec::new();
    let mut at = first.max(start);
    while at < end {
        let stop = end.min((at / CHUNK_BYTES + 1) * CHUNK_BYTES);
        let chunk = &mut buffer[..(stop - at) as usize];
        file.read_exact_at(chunk, at)?;
        parts.push(match &mut table {
            Some(table) => table.part(chunk),
            None => plain_part(chunk, style.blank),
        });
        progress.add(stop - at)?;
        at = stop;
    }
    Ok(parts)
}

/// The records of files, indexed in parallel, large files in parts unless their quotes must be followed.
///
/// # Errors
/// Of the first file that cannot be read, is not of the given size, has a record of more than `record_bytes` bytes, or a
/// quote that is not closed.
pub fn index_files<P: AsRef<Path> + Sync>(
    files: &[(P, u64)],
    style: Style,
    record_bytes: u64,
    threads: usize,
    progress: &Progress,
) -> Result<Vec<Lines>, FileTrouble> {
    let step = if style.is_table() { u64::MAX } else { CHUNK_BYTES };
    let tasks: Vec<(usize, u64)> = (0..files.len())
        .flat_map(|file| (0..files[file].1.div_ceil(step).max(1)).map(move |chunk| (file, chunk)))
        .collect();
    let parts = for_each_file(tasks.len(), threads, |task| {
        let (file, chunk) = tasks[task];
        let (path, size) = &files[file];
        let first = chunk * if chunk == 0 { 0 } else { step };
        scan(path.as_ref(), *size, first, first.saturating_add(step).min(*size), style, progress)
    });
    let parts = parts.map_err(|FileTrouble { file, trouble }| FileTrouble { file: tasks[file].0, trouble })?;
    let mut joined = Vec::with_capacity(files.len());
    let mut rest = tasks.iter().zip(parts).peekable();
    for (file, (_, size)) in files.iter().enumerate() {
        let mut of_file = Vec::new();
        while let Some((_, parts)) = rest.next_if(|((owner, _), _)| *owner == file) {
            of_file.extend(parts);
        }
        let start = size - of_file.iter().map(|part| u64::from(part.bytes)).sum::<u64>();
        joined.push(join(start, &of_file, style, record_bytes).map_err(|trouble| FileTrouble { file, trouble })?);
    }
    Ok(joined)
}

/// The records of bytes in memory: what fuzzing and tests look at.
///
/// # Errors
/// See [`index_files`].
pub fn index_bytes(bytes: &[u8], chunk_bytes: usize, style: Style, record_bytes: u64) -> Result<Lines, Trouble> {
    let start = if bytes.starts_with(UTF8_MARK) { 3 } else { 0 };
    let mut table = style.is_table().then(|| Table::new(style.quoted, style.blank));
    let chunks = bytes[start..].chunks(chunk_bytes.max(1));
    let parts: Vec<Part> = chunks
        .map(|chunk| match &mut table {
            Some(table) => table.part(chunk),
            None => plain_part(chunk, style.blank),
        })
        .collect();
    join(start as u64, &parts, style, record_bytes)
}

/// A line without its end.
#[must_use]
pub fn trimmed(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TEXT: Style = Style { blank: Blank::Kept, quoted: None, header: false };
    const JSON: Style = Style { blank: Blank::White, quoted: None, header: false };
    const CSV: Style = Style { blank: Blank::Empty, quoted: Some(b','), header: false };

    fn records(bytes: &[u8], style: Style) -> Vec<&[u8]> {
        let found = index_bytes(bytes, 1 << 20, style, 1 << 30).unwrap();
        let mut at = found.start as usize;
        let cut = |length: &i64| {
            at += *length as usize;
            &bytes[at - *length as usize..at]
        };
        found.lengths.iter().map(cut).collect()
    }

    #[test]
    fn text_keeps_empty_lines() {
        assert_eq!(records(b"a\n\r\n\nb", TEXT), [b"a\n".as_slice(), b"\r\n", b"\n", b"b"]);
        assert_eq!(records(b"\xEF\xBB\xBFa\n", TEXT), [b"a\n"]);
        assert!(records(b"", TEXT).is_empty());
    }

    #[test]
    fn blank_lines_belong_to_their_neighbours() {
        assert_eq!(records(b"\n 1\n\t \r\n2\n\n", JSON), [b"\n 1\n".as_slice(), b"\t \r\n2\n\n"]);
        assert_eq!(records(b"1\n  ", JSON), [b"1\n  "]);
        assert!(records(b" \n\n", JSON).is_empty());
        assert_eq!(records(b"\n\r\na\n \n", CSV), [b"\n\r\na\n".as_slice(), b" \n"]);
    }

    #[test]
    fn newlines_inside_quotes_end_nothing() {
        assert_eq!(records(b"\"a\nb\",1\n\"\"\"\n\",2", CSV), [b"\"a\nb\",1\n".as_slice(), b"\"\"\"\n\",2"]);
        assert_eq!(records(b"5\" pipe\nx\n", CSV), [b"5\" pipe\n".as_slice(), b"x\n"]);
        let open = index_bytes(b"a\n1,\"b\nc", 100, CSV, 100).unwrap_err();
        assert!(open.to_string().starts_with("record 1, byte 2: a quote is opened"));
    }

    #[test]
    fn a_header_is_left_out() {
        let found = index_bytes(b"\n\"x\ny\"\n1\n2\n", 3, Style { header: true, ..CSV }, 100).unwrap();
        assert_eq!(found, Lines { start: 7, lengths: vec![2, 2] });
    }

    proptest! {
        #[test]
        fn parts_make_no_difference(
            bytes in proptest::collection::vec(prop::sample::select(b"a \t\r\n\n\",".to_vec()), 0..60), size in 1_usize..9,
        ) {
            for style in [TEXT, JSON, CSV, Style { quoted: None, ..CSV }, Style { header: true, ..CSV }] {
                let whole = index_bytes(&bytes, 1 << 20, style, 1 << 30);
                let parts = index_bytes(&bytes, size, style, 1 << 30);
                prop_assert_eq!(format!("{whole:?}"), format!("{parts:?}"));
            }
        }
    }
}
