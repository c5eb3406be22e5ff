//! NumPy's .npy files (numpy.org/neps/nep-0001-npy-format): a magic, a version, and a header that is a Python literal like
//! `{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }`. Numbers only; nothing is ever unpickled.

use crate::core::dtype::Dtype;

/// Axes that an array may have, as in NumPy.
const AXES: usize = 64;
/// Bytes that a header may have; NumPy's own bound is 10,000.
const HEADER_BYTES: usize = 10_000;

/// What the header says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// The numbers' type.
    pub dtype: Dtype,
    /// Whether their bytes are in the other order than this machine's.
    pub swapped: bool,
    /// Whether the first axis is the fastest.
    pub fortran: bool,
    /// Length of each axis.
    pub shape: Vec<usize>,
    /// Where the numbers begin.
    pub data: usize,
}

/// Reads the header; the data that it announces is there, to the byte.
///
/// # Errors
/// In words: it is no .npy file, it is damaged, or it holds something else than numbers.
pub fn parse(file: &[u8]) -> Result<Header, String> {
    let (text, data) = literal(file)?;
    let (mut descr, mut fortran, mut shape) = (None, None, None);
    let mut rest = eat(text, b"{").ok_or(DAMAGED)?;
    while eat(rest, b"}").is_none() {
        let (key, after) = quoted(rest).ok_or(DAMAGED)?;
        let after = eat(after, b":").ok_or(DAMAGED)?;
        rest = match key {
            b"descr" => keep(&mut descr, element(after)?),
            b"fortran_order" => keep(&mut fortran, boolean(after).ok_or(DAMAGED)?),
            b"shape" => keep(&mut shape, axes(after).ok_or(DAMAGED)?),
            _ => return Err(DAMAGED.to_owned()),
        };
        rest = eat(rest, b",").unwrap_or(rest);
    }
    let (Some((dtype, swapped)), Some(fortran), Some(shape)) = (descr, fortran, shape) else {
        return Err(DAMAGED.to_owned());
    };
    let bytes = shape.iter().try_fold(dtype.size(), |bytes, &axis| bytes.checked_mul(axis));
    if bytes != Some(file.len() - data) {
        return Err(format!("an array of shape {shape:?}, which {} bytes of data are not", file.len() - data));
    }
    Ok(Header { dtype, swapped, fortran, shape, data })
}

const DAMAGED: &str = "an .npy header that is not well formed";

/// The header's text, and where the data begins.
fn literal(file: &[u8]) -> Result<(&[u8], usize), String> {
    let (start, length) = match file {
        [0x93, b'N', b'U', b'M', b'P', b'Y', 1, 0, low, high, ..] => {
            (10, usize::from(u16::from_le_bytes([*low, *high])))
        }
        [0x93, b'N', b'U', b'M', b'P', b'Y', 2 | 3, 0, a, b, c, d, ..] => {
            (12, u32::from_le_bytes([*a, *b, *c, *d]) as usize)
        }
        [0x80, 2..=5, ..] => return Err("a pickle, which is never loaded".to_owned()),
        _ => return Err("no .npy file of version 1, 2 or 3".to_owned()),
    };
    if length > HEADER_BYTES {
        return Err(format!("an .npy header of {length} bytes"));
    }
    Ok((file.get(start..start + length).ok_or(DAMAGED)?, start + length))
}

/// Sets what a key may say once.
fn keep<'a, T>(place: &mut Option<T>, (value, rest): (T, &'a [u8])) -> &'a [u8] {
    *place = Some(value);
    rest
}

/// What follows `token`, spaces before it left out.
fn eat<'a>(text: &'a [u8], token: &[u8]) -> Option<&'a [u8]> {
    text.trim_ascii_start().strip_prefix(token)
}

/// A string without escapes, and what follows it.
fn quoted(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let text = text.trim_ascii_start();
    let (quote, rest) = text.split_first().filter(|(quote, _)| matches!(quote, b'\'' | b'"'))?;
    let end = rest.iter().position(|byte| byte == quote)?;
    Some((&rest[..end], &rest[end + 1..]))
}

fn boolean(text: &[u8]) -> Option<(bool, &[u8])> {
    eat(text, b"True").map(|rest| (true, rest)).or_else(|| eat(text, b"False").map(|rest| (false, rest)))
}

/// A tuple of whole numbers.
fn axes(text: &[u8]) -> Option<(Vec<usize>, &[u8])> {
    let mut rest = eat(text, b"(")?;
    let mut shape = Vec::new();
    loop {
        if let Some(after) = eat(rest, b")") {
            return Some((shape, after));
        }
        rest = rest.trim_ascii_start();
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        shape.push(std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()?);
        rest = &rest[digits..];
        if shape.len() > AXES {
            return None;
        }
        match eat(rest, b",") {
            Some(after) => rest = after,
            None if eat(rest, b")").is_some() => {}
            None => return None,
        }
    }
}

/// The numbers' type, whether they are swapped, and what follows.
fn element(text: &[u8]) -> Result<((Dtype, bool), &[u8]), String> {
    if eat(text, b"[").is_some() {
        return Err("an array of structures".to_owned());
    }
    let (descr, rest) = quoted(text).ok_or(DAMAGED)?;
    let name = match descr.get(1..).unwrap_or_default() {
        b"b1" => "bool",
        b"i1" => "int8",
        b"i2" => "int16",
        b"i4" => "int32",
        b"i8" => "int64",
        b"u1" => "uint8",
        b"u2" => "uint16",
        b"u4" => "uint32",
        b"u8" => "uint64",
        b"f2" => "float16",
        b"f4" => "float32",
        b"f8" => "float64",
        b"O" | b"O8" => return Err("Python objects, which are a pickle and are never loaded".to_owned()),
        _ => return Err(format!("an array of dtype {:?}, which is no number", String::from_utf8_lossy(descr))),
    };
    let big = match descr[0] {
        b'<' => false,
        b'>' => true,
        b'|' | b'=' => cfg!(target_endian = "big"),
        _ => return Err(DAMAGED.to_owned()),
    };
    let dtype = Dtype::parse(name).ok_or(DAMAGED)?;
    Ok(((dtype, dtype.size() > 1 && big != cfg!(target_endian = "big")), rest))
}

/// Stores the numbers of a file in `out`, which has room for exactly them: in this machine's byte order, the last axis fastest.
pub fn store(file: &[u8], header: &Header, out: &mut [u8]) {
    let (data, size) = (&file[header.data..], header.dtype.size());
    if header.fortran && header.shape.iter().filter(|&&axis| axis != 1).count() > 1 {
        transpose(data, &header.shape, size, out);
    } else {
        out.copy_from_slice(data);
    }
    if header.swapped {
        out.chunks_exact_mut(size).for_each(<[u8]>::reverse);
    }
}

/// From the first axis fastest to the last axis fastest.
fn transpose(data: &[u8], shape: &[usize], size: usize, out: &mut [u8]) {
    let mut steps = vec![1; shape.len()];
    for axis in 1..shape.len() {
        steps[axis] = steps[axis - 1] * shape[axis - 1];
    }
    let mut place = vec![0; shape.len()];
    let mut from = 0;
    for out in out.chunks_exact_mut(size) {
        out.copy_from_slice(&data[from * size..(from + 1) * size]);
        for axis in (0..shape.len()).rev() {
            place[axis] += 1;
            from += steps[axis];
            if place[axis] < shape[axis] {
                break;
            }
            from -= steps[axis] * shape[axis];
            place[axis] = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(header: &str, data: &[u8]) -> Vec<u8> {
        let mut file = b"\x93NUMPY\x01\0".to_vec();
        file.extend((header.len() as u16).to_le_bytes());
        file.extend(header.as_bytes());
        file.extend(data);
        file
    }

    #[test]
    fn numbers_of_any_order() {
        let plain = file("{'descr': '<i2', 'fortran_order': False, 'shape': (2, 3), }   \n", &[0; 12]);
        let header = parse(&plain).unwrap();
        assert_eq!((header.dtype, header.shape.as_slice()), (Dtype::Int16, &[2, 3][..]));
        let data: Vec<u8> = [1_u16, 4, 2, 5, 3, 6].iter().flat_map(|value| value.to_be_bytes()).collect();
        let other = file("{\"shape\": (2, 3), 'descr': '>i2', 'fortran_order': True}", &data);
        let header = parse(&other).unwrap();
        let mut out = [0; 12];
        store(&other, &header, &mut out);
        let wanted: Vec<u8> = (1_u16..=6).flat_map(u16::to_ne_bytes).collect();
        assert_eq!(out, wanted.as_slice());
        for (shape, axes) in [("()", 0), ("(1,)", 1), ("(1,1)", 2)] {
            let one = file(&format!("{{'descr':'|u1','fortran_order':False,'shape':{shape}}}"), &[7]);
            assert_eq!(parse(&one).unwrap().shape, vec![1; axes]);
        }
    }

    #[test]
    fn what_is_not_numbers_is_told() {
        for (header, found) in [
            ("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", "never loaded"),
            ("{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': (1,)}", "structures"),
            ("{'descr': '<U3', 'fortran_order': False, 'shape': (1,)}", "no number"),
            ("{'descr': '<i4', 'fortran_order': False, 'shape': (9223372036854775807, 9)}", "bytes of data are not"),
            ("{'descr': '<i4', 'fortran_order': False, 'shape': (99999999999999999999,)}", "well formed"),
            ("{'descr': '<i4', 'fortran_order': False, 'shape': (1 1)}", "well formed"),
            ("{'descr': '<i4', 'fortran_order': False}", "well formed"),
            ("{'descr': '', 'fortran_order': False, 'shape': ()}", "no number"),
            ("{", "well formed"),
        ] {
            let told = parse(&file(header, &[0; 4])).unwrap_err();
            assert!(told.contains(found), "{told}");
        }
        assert!(parse(b"\x80\x04\x95").unwrap_err().contains("pickle"));
        assert!(parse(b"\x93NUMPY\x02\0\xff\xff\xff\xff").is_err());
    }
}
