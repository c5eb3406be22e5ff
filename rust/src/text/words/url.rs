//! Addresses of the web, which stay whole: spaCy's pattern (after Diego Perini, MIT). What it says by lookahead of private networks is written out here.

use std::sync::LazyLock;

use regex::Regex;

use super::tables::LOWER;

static PATTERN: LazyLock<Regex> = LazyLock::new(|| {
    let lower: String = LOWER.iter().map(|(first, last)| format!(r"\x{{{first:X}}}-\x{{{last:X}}}")).collect();
    let byte = r"(?:1?\d{1,2}|2[0-4]\d|25[0-5])";
    let last = r"(?:[1-9]\d?|1\d\d|2[0-4]\d|25[0-4])";
    // Of a first number all second ones, but for those of private networks.
    let second_169 = r"(?:1?\d{1,2}|2[0-4]\d|25[0-35])";
    let second_192 = r"(?:\d{1,2}|1(?:[\d--6]\d|6[\d--8])|2[0-4]\d|25[0-5])";
    let second_172 = r"(?:\d|[\d--1-3]\d|1[\d--6-9]|3[\d--01]|1\d\d|2[0-4]\d|25[0-5])";
    let first = r"(?:[1-9]|1[1-9]|[2-9]\d|1[013-5]\d|12[\d--7]|16[\d--9]|17[\d--2]|18\d|19[\d--2]|2[01]\d|22[0-3])";
    let address =
        format!(r"(?:(?:{first}\.{byte}|169\.{second_169}|192\.{second_192}|172\.{second_172})\.{byte}\.{last})");
    let letters = r"[A-Za-z0-9\x{a1}-\x{ffff}]";
    let host = format!(r"(?:(?:{letters}[A-Za-z0-9\x{{a1}}-\x{{ffff}}_-]{{0,62}})?{letters}\.)+[{lower}]{{2,63}}");
    let pattern = format!(
        r"(?s)\A(?:[\p{{L}}\p{{N}}_+\-.]{{2,}}://)?(?:.+(?::.*)?@)?(?:{address}|{host})(?::\d{{2,5}})?(?:[/?#].*)?\z"
    );
    Regex::new(&pattern).expect("the pattern is fixed")
});

/// Whether a run of letters is an address as a whole.
pub fn is_match(run: &str) -> bool {
    memchr::memchr(b'.', run.as_bytes()).is_some() && PATTERN.is_match(run)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_networks_are_none() {
        for public in
            ["8.8.8.8", "http://example.com/a?b", "user:pass@example.co.uk:80", "172.15.0.1", "192.167.1.1", "1.2.3.4"]
        {
            assert!(is_match(public), "{public}");
        }
        for private in [
            "10.1.1.1",
            "127.0.0.1",
            "169.254.1.1",
            "192.168.1.1",
            "172.16.0.1",
            "172.31.9.9",
            "example",
            "a.B",
            "U.S.",
        ] {
            assert!(!is_match(private), "{private}");
        }
    }
}
