//! A column of texts in memory.

/// Texts side by side: row `i` is `data[edges[i]..edges[i + 1]]`. missing: which rows have none, empty where all have one.
#[derive(Clone, Copy)]
pub struct Texts<'a> {
    edges: &'a [i64],
    data: &'a [u8],
    missing: &'a [bool],
}

impl<'a> Texts<'a> {
    /// A column of these parts; None where they do not fit together.
    #[must_use]
    pub fn new(edges: &'a [i64], data: &'a [u8], missing: &'a [bool]) -> Option<Self> {
        let (first, last) = (*edges.first()?, *edges.last()?);
        let fits = first >= 0 && usize::try_from(last).is_ok_and(|last| last <= data.len());
        let ascends = edges.windows(2).all(|pair| pair[0] <= pair[1]);
        let all_said = missing.is_empty() || missing.len() == edges.len() - 1;
        (fits && ascends && all_said).then_some(Self { edges, data, missing })
    }

    /// How many rows there are.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.edges.len() - 1
    }

    /// The bytes of rows `first` to `last - 1`, together.
    #[must_use]
    pub fn size(&self, first: usize, last: usize) -> usize {
        (self.edges[last] - self.edges[first]) as usize
    }

    /// The bytes of a row; None where it has no text.
    #[must_use]
    pub fn get(&self, row: usize) -> Option<&'a [u8]> {
        let is_missing = !self.missing.is_empty() && self.missing[row];
        (!is_missing).then(|| &self.data[self.edges[row] as usize..self.edges[row + 1] as usize])
    }

    /// The text of a row; None where it has none.
    ///
    /// # Errors
    /// In words, for bytes that are no text.
    pub fn text(&self, row: usize) -> Result<Option<&'a str>, String> {
        let text = self.get(row).map(std::str::from_utf8).transpose();
        text.map_err(|error| format!("the text is no UTF-8 from byte {} on", error.valid_up_to()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_what_lies_between_edges() {
        let texts = Texts::new(&[1, 3, 3, 4], b"xabc", &[false, true, false]).unwrap();
        assert_eq!((texts.rows(), texts.size(0, 3)), (3, 3));
        assert_eq!([texts.text(0), texts.text(1)], [Ok(Some("ab")), Ok(None)]);
        let wrong = Texts::new(&[0, 2], b"a\xff", &[]).unwrap();
        assert_eq!(wrong.text(0), Err("the text is no UTF-8 from byte 1 on".to_owned()));
        assert_eq!([texts.get(0), texts.get(1), texts.get(2)], [Some(&b"ab"[..]), None, Some(&b"c"[..])]);
    }

    #[test]
    fn parts_that_do_not_fit_are_refused() {
        assert!(Texts::new(&[], b"", &[]).is_none());
        assert!(Texts::new(&[0, 2], b"a", &[]).is_none());
        assert!(Texts::new(&[1, 0], b"a", &[]).is_none());
        assert!(Texts::new(&[-1, 0], b"a", &[]).is_none());
        assert!(Texts::new(&[0, 1], b"a", &[true, false]).is_none());
    }
}
