//! One header block of 512 bytes.

/// Headers and data lie in blocks of so many bytes.
pub const BLOCK_BYTES: usize = 512;

/// A block of a tar archive.
pub type Block = [u8; BLOCK_BYTES];

/// The fields of a header that matter here. The checksum was right.
#[derive(Debug, Clone, Copy)]
pub struct Header<'a> {
    /// Bytes of data that follow.
    pub size: u64,
    /// The type flag.
    pub kind: u8,
    /// The first part of the name, of ustar headers only; often empty.
    pub prefix: &'a [u8],
    /// The name, or its second part.
    pub name: &'a [u8],
}

/// Whether a file that begins with `head` is a tar archive: it has a header with the right sum.
#[must_use]
pub fn is_header(head: &[u8]) -> bool {
    head.first_chunk::<BLOCK_BYTES>().is_some_and(|block| !is_zero(block) && parse(block).is_ok())
}

/// Whether the block ends the archive.
#[inline]
pub fn is_zero(block: &Block) -> bool {
    block[0] == 0 && block.iter().all(|&byte| byte == 0)
}

/// The fields of a header.
///
/// # Errors
/// In words, if the checksum or a number is wrong.
#[inline]
pub fn parse(block: &Block) -> Result<Header<'_>, String> {
    check_sum(block)?;
    let prefix: &[u8] = if &block[257..263] == b"ustar\0" { until_zero(&block[345..500]) } else { &[] };
    Ok(Header { size: number(&block[124..136])?, kind: block[156], prefix, name: until_zero(&block[..100]) })
}

/// The sum of all bytes, with the sum's own eight as spaces; old writers took the bytes as signed.
fn check_sum(block: &Block) -> Result<(), String> {
    let stated = number(&block[148..156])?;
    let own: u32 = block[148..156].iter().map(|&byte| u32::from(byte)).sum();
    let unsigned = block.iter().map(|&byte| u32::from(byte)).sum::<u32>() - own + 8 * u32::from(b' ');
    if stated == u64::from(unsigned) {
        return Ok(());
    }
    let high = |bytes: &[u8]| bytes.iter().filter(|&&byte| byte >= 0x80).count() as u32;
    let signed = i64::from(unsigned) - 256 * i64::from(high(block) - high(&block[148..156]));
    if i64::try_from(stated) == Ok(signed) {
        return Ok(());
    }
    Err(format!("the header's checksum is {unsigned}, the file says {stated}"))
}

/// Octal digits with spaces around them, ended by a zero; or, with the first bit set, a big-endian number.
#[inline]
fn number(field: &[u8]) -> Result<u64, String> {
    if field[0] & 0x80 != 0 {
        return base_256(field);
    }
    let mut value = 0_u64;
    let mut digits = until_zero(field).trim_ascii().iter();
    if digits.len() > 12
        || !digits.all(|&digit| {
            value = value << 3 | u64::from(digit & 7);
            (b'0'..b'8').contains(&digit)
        })
    {
        return Err(format!("a field of numbers holds {:?}", String::from_utf8_lossy(field)));
    }
    Ok(value)
}

fn base_256(field: &[u8]) -> Result<u64, String> {
    let (words, low) = field.split_at(field.len().saturating_sub(8));
    let high_is_zero = match words {
        [first, rest @ ..] => first & 0x7F == 0 && rest.iter().all(|&byte| byte == 0),
        [] => false, // an eight-byte field of this kind would be the checksum, which no writer makes so
    };
    if !high_is_zero {
        return Err("a number that is negative or beyond 64 bits".to_owned());
    }
    Ok(low.iter().fold(0, |value, &byte| value << 8 | u64::from(byte)))
}

/// The bytes before the first zero.
#[inline]
pub fn until_zero(field: &[u8]) -> &[u8] {
    let end = field.iter().position(|&byte| byte == 0).unwrap_or(field.len());
    &field[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_octal_and_in_bytes() {
        assert_eq!(number(b"00000000644\0"), Ok(0o644));
        assert_eq!(number(b"  644 \0     "), Ok(0o644));
        assert_eq!(number(b"777777777777"), Ok(0o777_777_777_777));
        assert_eq!(number(&[0; 12]), Ok(0));
        assert_eq!(number(b"\x80\0\0\0\0\0\0\x03\0\0\0\x01"), Ok(0x3_0000_0001));
        assert_eq!(number(b"\x80\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff"), Ok(u64::MAX));
        for wrong in [&b"00000000649\0"[..], b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", b"-0000000001\0"] {
            assert!(number(wrong).is_err());
        }
        assert!(number(b"\x80\0\0\x01\0\0\0\0\0\0\0\0").is_err());
    }
}
