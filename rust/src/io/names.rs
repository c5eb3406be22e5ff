//! What the names of many files say: how they end, and which folders they lie in.

use std::collections::HashMap;

use memchr::memchr;

/// Names one after the other, as the buffers of an Arrow large_string array have them: name `i` is `bytes[offsets[i]..offsets[i + 1]]`.
pub struct Names<'a> {
    offsets: &'a [i64],
    bytes: &'a [u8],
}

impl<'a> Names<'a> {
    /// None unless all names lie in `bytes`, one behind the other.
    #[must_use]
    pub fn new(offsets: &'a [i64], bytes: &'a [u8]) -> Option<Self> {
        let (first, last) = (*offsets.first()?, *offsets.last()?);
        let fits = first >= 0 && usize::try_from(last).ok()? <= bytes.len() && offsets.is_sorted();
        fits.then_some(Self { offsets, bytes })
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fn iter(&self) -> impl Iterator<Item = &'a [u8]> {
        self.offsets.windows(2).map(|edges| &self.bytes[edges[0] as usize..edges[1] as usize])
    }

    /// Whether each name has one of the endings. `any_case`: ASCII letters of either case are the same.
    #[must_use]
    pub fn end_with(&self, endings: &[String], any_case: bool) -> Vec<bool> {
        let matches = |name: &[u8]| {
            endings.iter().any(|ending| {
                let tail = &name[name.len().saturating_sub(ending.len())..];
                if any_case { tail.eq_ignore_ascii_case(ending.as_bytes()) } else { tail == ending.as_bytes() }
            })
        };
        self.iter().map(matches).collect()
    }

    /// The first folder of every name behind its first `root_bytes`, as the place of that folder among those found, -1 for a name without one; and for
    /// each of those the first name in it.
    #[must_use]
    #[allow(clippy::cast_possible_wrap)]
    pub fn first_folders(&self, root_bytes: usize) -> (Vec<i64>, Vec<i64>) {
        let (mut known, mut first) = (HashMap::new(), Vec::new());
        let folders = self.iter().enumerate().map(|(number, name)| {
            let below = name.get(root_bytes..).unwrap_or_default();
            let Some(end) = memchr(b'/', below) else { return -1 };
            *known.entry(&below[..end]).or_insert_with(|| {
                first.push(number as i64);
                first.len() as i64 - 1
            })
        });
        (folders.collect(), first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_end_and_lie_in_folders() {
        let bytes = b"/a/cat/1.JPG/a/dog/2.jpg/a/cat/x/3.png/a/4.jpg";
        let names = Names::new(&[0, 12, 24, 38, 46], bytes).unwrap();
        let endings = [".jpg".to_owned(), "far longer than any of these names is".to_owned()];
        assert_eq!(names.end_with(&endings, true), [true, true, false, true]);
        assert_eq!(names.end_with(&endings, false), [false, true, false, true]);
        assert_eq!(names.first_folders(3), (vec![0, 1, 0, -1], vec![0, 1]));
        assert_eq!(names.first_folders(99), (vec![-1; 4], vec![]));
    }

    #[test]
    fn names_outside_their_bytes_are_none() {
        for offsets in [&[0, 5][..], &[-1, 2], &[2, 1], &[]] {
            assert!(Names::new(offsets, b"abcd").is_none());
        }
    }
}
