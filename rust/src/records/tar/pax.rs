//! Extended headers (POSIX.1-2001 pax): records "LENGTH KEY=VALUE\n", of which only name and size matter.

/// What an extended header says of the member that follows it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Extended<'a> {
    /// Its name.
    pub path: Option<&'a [u8]>,
    /// Bytes of its data.
    pub size: Option<u64>,
    /// Whether its holes are left out of the data.
    pub sparse: bool,
}

/// Reads the records; of several with one key the last counts.
///
/// # Errors
/// In words, if a record is not well formed, or of a size that is no number.
pub fn parse(mut records: &[u8]) -> Result<Extended<'_>, String> {
    let mut found = Extended::default();
    while !records.is_empty() {
        let (key, value, rest) = record(records).ok_or("an extended header that is not well formed")?;
        match key {
            b"path" => found.path = Some(value),
            b"size" => found.size = Some(decimal(value).ok_or("an extended header with a size that is no number")?),
            _ if key.starts_with(b"GNU.sparse.") => found.sparse = true,
            _ => {}
        }
        records = rest;
    }
    Ok(found)
}

/// The first record: key, value, and what follows.
fn record(records: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let space = records.iter().take(20).position(|&byte| byte == b' ')?;
    let length = usize::try_from(decimal(&records[..space])?).ok()?;
    if length > records.len() || length < space + 2 || records[length - 1] != b'\n' {
        return None;
    }
    let text = &records[space + 1..length - 1];
    let equals = text.iter().position(|&byte| byte == b'=')?;
    Some((&text[..equals], &text[equals + 1..], &records[length..]))
}

fn decimal(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok().filter(|text| !text.starts_with('+'))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_and_size_are_found() {
        let found = parse(b"30 mtime=1319455202.123456789\n16 path=a\xc3\xa4/b=c\n21 size=123456789012\n");
        assert_eq!(found, Ok(Extended { path: Some("aä/b=c".as_bytes()), size: Some(123_456_789_012), sparse: false }));
        assert_eq!(parse(b"22 GNU.sparse.major=1\n"), Ok(Extended { sparse: true, ..Extended::default() }));
        assert_eq!(parse(b""), Ok(Extended::default()));
    }

    #[test]
    fn what_is_not_well_formed_is_told() {
        for wrong in [
            &b"11 path=abc"[..],
            b"99 path=abc\n",
            b"0 path=abc\n",
            b"2 \n",
            b"path=abc\n",
            b"8 path a\n",
            b"18446744073709551616 path=abc\n",
            b"9 size=-1\n\0",
        ] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
