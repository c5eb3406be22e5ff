//! The text of a request, and the head of its response.

use std::ops::Range;

use httparse::{EMPTY_HEADER, Header, Response, Status};

/// Most fields of a response's head; one with more cannot be used.
const MOST_FIELDS: usize = 64;

/// The head of a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// Bytes of the head itself.
    pub size: usize,
    /// The status.
    pub status: u16,
    /// Bytes of the body; None if not stated, or if the body has a transfer encoding.
    pub length: Option<u64>,
    /// The body's transfer encoding.
    pub coding: Coding,
    /// The range of bytes in the body, and the size of the whole object.
    pub range: Option<(Range<u64>, u64)>,
    /// The object's version.
    pub etag: String,
    /// Where a redirect leads.
    pub location: String,
    /// Whether the server says that it compressed the object, or sends a web page.
    pub is_odd: bool,
    /// When the object was last changed, as the server writes it.
    pub modified: String,
    /// Whether another request may follow.
    pub keeps: bool,
}

/// The transfer encoding of a body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Coding {
    /// None.
    #[default]
    Plain,
    /// In chunks.
    Chunks,
    /// An unsupported one, or one that contradicts the length.
    Other,
}

impl Head {
    /// The head at the beginning of `bytes`; None if it is incomplete.
    ///
    /// # Errors
    /// If the bytes are not the head of a response.
    pub fn parse(bytes: &[u8]) -> Result<Option<Self>, httparse::Error> {
        let mut fields = [EMPTY_HEADER; MOST_FIELDS];
        let mut answer = Response::new(&mut fields);
        let Status::Complete(size) = answer.parse(bytes)? else { return Ok(None) };
        let status = answer.code.unwrap_or(0);
        let mut head = Self { size, status, keeps: answer.version == Some(1), ..Self::default() };
        let (mut length, mut brought, mut etag, mut modified) = (None, None, None, None);
        let (mut coding, mut location) = (None, None);
        for Header { name, value } in answer.headers {
            match name.to_ascii_lowercase().as_str() {
                "content-length" => once(&mut length, value)?,
                "content-range" => once(&mut brought, value)?,
                "etag" => once(&mut etag, value)?,
                "last-modified" => once(&mut modified, value)?,
                "transfer-encoding" => once(&mut coding, value)?,
                "location" => once(&mut location, value)?,
                "content-encoding" => head.is_odd |= !value.trim_ascii().eq_ignore_ascii_case(b"identity"),
                "content-type" => {
                    head.is_odd |= value.get(..9).is_some_and(|kind| kind.eq_ignore_ascii_case(b"text/html"));
                }
                "connection" => head.keeps &= !text(value)?.to_ascii_lowercase().contains("close"),
                _ => {}
            }
        }
        if let Some(length) = length {
            let length = number(length).ok_or(httparse::Error::HeaderValue)?;
            head.length = coding.is_none().then_some(length);
        }
        head.coding = match (coding, length) {
            (None, _) => Coding::Plain,
            (Some(coding), None) if coding.eq_ignore_ascii_case("chunked") => Coding::Chunks,
            _ => Coding::Other,
        };
        head.range = brought.and_then(range);
        location.unwrap_or_default().clone_into(&mut head.location);
        etag.unwrap_or_default().clone_into(&mut head.etag);
        modified.unwrap_or_default().clone_into(&mut head.modified);
        Ok(Some(head))
    }
}

fn text(value: &[u8]) -> Result<&str, httparse::Error> {
    std::str::from_utf8(value).map_err(|_| httparse::Error::HeaderValue)
}

/// Stores a field, which may be repeated only with the same value.
fn once<'a>(known: &mut Option<&'a str>, value: &'a [u8]) -> Result<(), httparse::Error> {
    let value = text(value)?;
    match known.replace(value) {
        Some(before) if before != value => Err(httparse::Error::HeaderValue),
        _ => Ok(()),
    }
}

fn number(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// `bytes first-last/size`
fn range(value: &str) -> Option<(Range<u64>, u64)> {
    let (brought, size) = value.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = brought.split_once('-')?;
    Some((number(first)?..number(last)?.checked_add(1)?, number(size)?))
}

/// An `ETag` without what listings leave out.
pub fn bare(etag: &str) -> &str {
    etag.strip_prefix("W/").unwrap_or(etag).trim_matches('"')
}

/// An object's version in a listing (`storage/stores/version.py`): its `ETag`, then after a line feed its date if there is no strong
/// `ETag`.
pub fn versions(version: &str) -> (&str, &str) {
    version.split_once('\n').unwrap_or((version, ""))
}

impl Head {
    /// Whether this is the version that a listing has.
    pub fn is_of(&self, version: &str) -> bool {
        let (etag, date) = versions(version);
        (etag.is_empty() || bare(&self.etag) == bare(etag)) && (date.is_empty() || self.modified == date)
    }
}

/// The condition of a request; "" for none. A weak `ETag` never matches (RFC 9110, 13.1.1).
fn condition(version: &str) -> String {
    let (etag, date) = versions(version);
    if !etag.is_empty() && !etag.starts_with("W/") {
        format!("if-match: {etag}\r\n")
    } else if date.is_empty() {
        String::new()
    } else {
        format!("if-unmodified-since: {date}\r\n")
    }
}

/// The text of a request for bytes of an object; None if a part contains a line break.
#[must_use]
pub fn request(path: &str, host: &str, range: &Range<u64>, version: &str) -> Option<String> {
    let (etag, date) = versions(version);
    if [path, host, etag, date].iter().any(|text| text.bytes().any(|byte| byte.is_ascii_control()))
        || path.contains(' ')
    {
        return None;
    }
    let mut text = format!(
        "GET {path} HTTP/1.1\r\nhost: {host}\r\nrange: bytes={}-{}\r\n\
         accept: */*\r\naccept-encoding: identity\r\nuser-agent: penstock/{}\r\n",
        range.start,
        range.end - 1,
        env!("CARGO_PKG_VERSION"),
    );
    text.push_str(&condition(version));
    text.push_str("\r\n");
    Some(text)
}
