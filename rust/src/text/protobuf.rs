//! The wire format of protobuf: fields of a message, one after another.

/// A field's value.
#[derive(Debug, PartialEq, Eq)]
pub enum Field<'a> {
    /// A varint.
    Number(u64),
    /// Bytes: text, or a message.
    Bytes(&'a [u8]),
    /// Four bytes.
    Four(u32),
    /// Eight bytes, of which nothing is made.
    Eight,
}

/// The number and value of each field; an error where the message is damaged, behind which nothing comes.
pub fn fields(mut data: &[u8]) -> impl Iterator<Item = Result<(u64, Field<'_>), ()>> {
    std::iter::from_fn(move || {
        if data.is_empty() {
            return None;
        }
        let found = next(&mut data);
        if found.is_none() {
            data = &[];
        }
        Some(found.ok_or(()))
    })
}

fn next<'a>(data: &mut &'a [u8]) -> Option<(u64, Field<'a>)> {
    let key = varint(data)?;
    let value = match key & 7 {
        0 => Field::Number(varint(data)?),
        1 => {
            *data = data.split_at_checked(8)?.1;
            Field::Eight
        }
        2 => {
            let length = usize::try_from(varint(data)?).ok()?;
            let (value, rest) = data.split_at_checked(length)?;
            *data = rest;
            Field::Bytes(value)
        }
        5 => {
            let (value, rest) = data.split_first_chunk::<4>()?;
            *data = rest;
            Field::Four(u32::from_le_bytes(*value))
        }
        _ => return None,
    };
    (key >> 3 > 0).then_some((key >> 3, value))
}

fn varint(data: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = data.split_first()?;
        *data = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_one_by_one() {
        let data = [0x08, 0x96, 0x01, 0x12, 0x02, b'h', b'i', 0x1d, 1, 0, 0, 0];
        let found: Vec<_> = fields(&data).collect();
        assert_eq!(found, [Ok((1, Field::Number(150))), Ok((2, Field::Bytes(b"hi"))), Ok((3, Field::Four(1)))]);
        assert_eq!(fields(&data[..6]).last(), Some(Err(())));
        assert_eq!(fields(&[0xff; 12]).collect::<Vec<_>>(), [Err(())]);
    }
}
