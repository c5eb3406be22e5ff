//! Where the features of an Example lie (tensorflow/core/example/example.proto and feature.proto):
//!
//! ```text
//! Example  { Features features = 1; }
//! Features { map<string, Feature> feature = 1; }      // each entry: key = 1, value = 2
//! Feature  { oneof kind { BytesList bytes_list = 1; FloatList float_list = 2; Int64List int64_list = 3; } }
//! ```
//!
//! A SequenceExample is an Example with a second map beside the first, whose features are lists of them:
//!
//! ```text
//! SequenceExample { Features context = 1; FeatureLists feature_lists = 2; }
//! FeatureLists    { map<string, FeatureList> feature_list = 1; }
//! FeatureList     { repeated Feature feature = 1; }
//! ```

use super::fault::Fault;
use super::kind::Kind;
use super::names::{NONE, Names};
use super::wire::{Cursor, Part, block_tag};

/// Where the values of a feature lie.
#[derive(Debug, Clone, Copy, Default)]
pub struct Found {
    /// What they are.
    pub kind: Kind,
    /// Whether `part` is a piece of `Feature` with several lists, which count as one, rather than the body of one list.
    several: bool,
    part: Part,
}

impl Found {
    /// Calls `each` with a cursor on the body of every list; nearly always there is one.
    ///
    /// # Errors
    /// What `each` returns, or that the lists are not well formed.
    #[inline(always)]
    pub fn lists<'a>(
        &self,
        bytes: &'a [u8],
        mut each: impl FnMut(Cursor<'a>) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let mut cursor = Cursor::new(bytes, self.part);
        if !self.several {
            return each(cursor);
        }
        while !cursor.is_done() {
            let tag = cursor.varint()?;
            if tag == block_tag(self.kind.field()) {
                each(Cursor::new(bytes, cursor.block()?))?;
            } else {
                cursor.skip(tag)?;
            }
        }
        Ok(())
    }
}

/// Finds the features `names` of the Example in `body`; `found[i]` is set for every name i, to the default where the
/// record lacks it. Of duplicate keys the last counts. `order` remembers which name stood at which place of the record
/// before, as a guess for the next one.
///
/// # Errors
/// If the bytes are not an Example, as far as its features' names and places tell.
pub fn find(bytes: &[u8], body: Part, names: &Names, order: &mut Vec<u32>, found: &mut [Found]) -> Result<(), Fault> {
    found.fill(Found::default());
    find_entries::<FEATURES>(bytes, body, names, order, |name, value| {
        if let Some(slot) = found.get_mut(name) {
            *slot = feature(bytes, value)?;
        }
        Ok(())
    })
}

/// As [`find`], for the lists of features of a SequenceExample; an empty part where the record lacks one.
///
/// # Errors
/// As [`find`].
pub fn find_lists(
    bytes: &[u8],
    body: Part,
    names: &Names,
    order: &mut Vec<u32>,
    found: &mut [Part],
) -> Result<(), Fault> {
    found.fill(Part::default());
    find_entries::<FEATURE_LISTS>(bytes, body, names, order, |name, value| {
        if let Some(slot) = found.get_mut(name) {
            *slot = value;
        }
        Ok(())
    })
}

/// Calls `each` with every feature of a `FeatureList`.
///
/// # Errors
/// What `each` returns, or that the bytes are not a list of features.
#[inline]
pub fn each_step(bytes: &[u8], list: Part, mut each: impl FnMut(&Found) -> Result<(), Fault>) -> Result<(), Fault> {
    let mut cursor = Cursor::new(bytes, list);
    while !cursor.is_done() {
        let tag = cursor.varint()?;
        if tag == block_tag(1) {
            each(&feature(bytes, cursor.block()?)?)?;
        } else {
            cursor.skip(tag)?;
        }
    }
    Ok(())
}

/// Calls `each` with the number and the value of every entry whose name is wanted, or with a number that no name has.
#[inline(always)]
fn find_entries<const FIELD: u64>(
    bytes: &[u8],
    body: Part,
    names: &Names,
    order: &mut Vec<u32>,
    mut each: impl FnMut(usize, Part) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let mut place = 0;
    entries::<FIELD>(bytes, body, |key, value| {
        let guess = order.get(place).copied().unwrap_or(NONE);
        let name = names.number(bytes, key, guess);
        if name != guess {
            remember(order, place, name);
        }
        place += 1;
        each(name as usize, value)
    })
}

/// Places of a record that are remembered; later ones are looked up by hash.
const REMEMBERED: usize = 4_096;

#[cold]
fn remember(order: &mut Vec<u32>, place: usize, name: u32) {
    if place < REMEMBERED {
        if place >= order.len() {
            order.resize(place + 1, NONE);
        }
        order[place] = name;
    }
}

/// The field of an Example, or a SequenceExample, that maps names to features.
pub const FEATURES: u64 = 1;
/// The field of a SequenceExample that maps names to lists of features.
pub const FEATURE_LISTS: u64 = 2;

/// Calls `each` with the key and the value (a `Feature` or `FeatureList`) of every entry of the map `FIELD`, in the file's order.
///
/// # Errors
/// What `each` returns, or that the bytes are not an Example.
#[inline(always)]
pub fn entries<const FIELD: u64>(
    bytes: &[u8],
    body: Part,
    mut each: impl FnMut(Part, Part) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let mut example = Cursor::new(bytes, body);
    while !example.is_done() {
        let tag = example.varint()?;
        if tag != block_tag(FIELD) {
            example.skip(tag)?;
            continue;
        }
        let mut features = Cursor::new(bytes, example.block()?);
        while !features.is_done() {
            let tag = features.varint()?;
            if tag != block_tag(1) {
                features.skip(tag)?;
                continue;
            }
            let (key, value) = entry(Cursor::new(bytes, features.block()?))?;
            each(key, value)?;
        }
    }
    Ok(())
}

/// Key and value of a map entry; what is missing is empty.
#[inline(always)]
fn entry(mut cursor: Cursor<'_>) -> Result<(Part, Part), Fault> {
    let empty = Part { start: cursor.at(), end: cursor.at() };
    let (mut key, mut value) = (empty, empty);
    while !cursor.is_done() {
        let tag = cursor.varint()?;
        if tag == block_tag(1) {
            key = cursor.block()?;
        } else if tag == block_tag(2) {
            value = cursor.block()?;
        } else {
            cursor.skip(tag)?;
        }
    }
    Ok((key, value))
}

/// Where the values of a `Feature` lie: of several kinds the last counts, several lists of that kind are joined.
///
/// # Errors
/// If the bytes are not a `Feature`.
#[inline(always)]
pub fn feature(bytes: &[u8], value: Part) -> Result<Found, Fault> {
    let mut cursor = Cursor::new(bytes, value);
    let mut found = Found::default();
    while !cursor.is_done() {
        let start = cursor.at();
        let tag = cursor.varint()?;
        let kind = match tag {
            0x0A => Kind::Bytes,
            0x12 => Kind::Float,
            0x1A => Kind::Int64,
            _ => {
                cursor.skip(tag)?;
                continue;
            }
        };
        let list = cursor.block()?;
        if found.kind == kind {
            // The lists before this one begin where the first of them begins, its tag and length included.
            let first = if found.several { found.part.start } else { list_start(bytes, value, found.part) };
            found = Found { kind, several: true, part: Part { start: first, end: cursor.at() } };
        } else {
            found = Found { kind, several: false, part: list };
        }
        debug_assert!(start < cursor.at());
    }
    Ok(found)
}

/// Where the field of `Feature` begins that holds `list`.
#[cold]
fn list_start(bytes: &[u8], value: Part, list: Part) -> usize {
    let mut cursor = Cursor::new(bytes, value);
    let mut start = value.start;
    while !cursor.is_done() && cursor.at() < list.start {
        start = cursor.at();
        let Ok(tag) = cursor.varint() else { break };
        if cursor.skip(tag).is_err() {
            break;
        }
    }
    start
}
