//! What names a person or an account: addresses of mail and of machines, phone numbers, IBANs, cards. Fixed patterns, in time linear in the text, with checksums where there are some.

use std::net::Ipv6Addr;
use std::sync::LazyLock;

use regex::Regex;

/// What is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An address of mail.
    Email,
    /// An account's international number, whose checksum is right.
    Iban,
    /// A payment card's number, whose checksum is right.
    CreditCard,
    /// An address of IPv4 or IPv6.
    Ip,
    /// A phone number, international or North American.
    Phone,
}

impl Kind {
    /// The kind of a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "email" => Self::Email,
            "iban" => Self::Iban,
            "credit_card" => Self::CreditCard,
            "ip" => Self::Ip,
            "phone" => Self::Phone,
            _ => return None,
        })
    }

    fn pattern(self) -> &'static Regex {
        &PATTERNS[self as usize]
    }

    /// The end of what begins at `start`, of a match that ends at `end`; None where it is something else.
    fn checked(self, text: &str, start: usize, end: usize) -> Option<usize> {
        let stands = |&end: &usize| self.stands_alone(text, start, end);
        match self {
            Self::Email => Some(end).filter(stands),
            Self::Iban => iban(text, start).filter(stands),
            Self::CreditCard => group_ends(text, start, end).find(|one| stands(one) && is_card(&text[start..*one])),
            Self::Ip => ip(text, start, end).filter(stands),
            Self::Phone => {
                group_ends(text, start, end).find(|one| stands(one) && (8..=15).contains(&digits(&text[start..*one])))
            }
        }
    }

    /// Whether neither letters nor digits of ASCII go on at both sides, nor a number behind a point.
    fn stands_alone(self, text: &str, start: usize, end: usize) -> bool {
        let bytes = text.as_bytes();
        let (points, points_behind): (&[u8], &[u8]) = match self {
            Self::Ip if text[start..end].contains('.') => (b".", b"."), // a port or the end of a range may follow
            Self::Ip => (b".:", b".:"),
            Self::CreditCard | Self::Phone => (b".:-", b".:"), // what else was written beside it, an extension for example
            Self::Email | Self::Iban => (b".:-", b".:-"),
        };
        let is = |place: Option<usize>, wanted: &dyn Fn(&u8) -> bool| {
            place.and_then(|place| bytes.get(place)).is_some_and(wanted)
        };
        let (before, behind) = (start.checked_sub(1), Some(end));
        !(is(before, &u8::is_ascii_alphanumeric)
            || is(behind, &u8::is_ascii_alphanumeric)
            || (is(before, &|one| points.contains(one))
                && is(start.checked_sub(2), &u8::is_ascii_digit)
                && bytes[start].is_ascii_digit())
            || (is(behind, &|one| points_behind.contains(one))
                && is(Some(end + 1), &u8::is_ascii_digit)
                && bytes[end - 1].is_ascii_digit()))
    }
}

static PATTERNS: LazyLock<[Regex; 5]> = LazyLock::new(|| {
    let byte = r"(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])";
    [
        r"[A-Za-z0-9][A-Za-z0-9._%+\-]{0,63}@(?:[A-Za-z0-9\-]{1,63}\.)+[A-Za-z]{2,63}".to_owned(),
        r"[A-Z]{2}[0-9]{2}[ A-Z0-9]".to_owned(),
        r"[2-6](?:[ \-]?[0-9]){12,18}".to_owned(),
        format!(r"{byte}(?:\.{byte}){{3}}|[0-9A-Fa-f]{{0,4}}(?::[0-9A-Fa-f]{{0,4}}){{2,7}}(?:(?:\.[0-9]{{1,3}}){{3}})?"),
        r"\+[0-9]{1,3}(?:[ .\-]?\(0\))?(?:[ .\-]?(?:\([0-9]{1,4}\)|[0-9]{1,5})){2,6}|(?:1[ .\-])?(?:\([2-9][0-9]{2}\)[ .\-]?|[2-9][0-9]{2}[ .\-])[2-9][0-9]{2}[ .\-][0-9]{4}".to_owned(),
    ]
    .map(|pattern| Regex::new(&pattern).expect("the patterns are fixed"))
});

/// Writes a text with other words for what is found: of each kind its own. Where several kinds overlap, the one that begins first stands, of these the first kind given.
pub fn redact(text: &str, kinds: &[(Kind, String)], out: &mut String) {
    let mut found: Vec<(usize, usize, usize)> = Vec::new();
    for (number, (kind, _)) in kinds.iter().enumerate() {
        let mut place = 0;
        while let Some(next) = kind.pattern().find_at(text, place) {
            match kind.checked(text, next.start(), next.end()) {
                Some(end) => {
                    found.push((next.start(), number, end));
                    place = end;
                }
                None => place = behind(text, next.start(), next.end(), *kind),
            }
        }
    }
    found.sort_unstable();
    let mut done = 0;
    for (start, number, end) in found {
        if start >= done {
            out.push_str(&text[done..start]);
            out.push_str(&kinds[number].1);
            done = end;
        }
    }
    out.push_str(&text[done..]);
}

/// Where to look on after something else: matches are short, but for mail, so that looking at their insides again stays linear.
fn behind(text: &str, start: usize, end: usize, kind: Kind) -> usize {
    if kind == Kind::Email { end } else { start + text[start..].chars().next().map_or(1, char::len_utf8) }
}

/// Where a number in groups may end, the longest first: a match goes on into a number that stands beside it.
fn group_ends(text: &str, start: usize, end: usize) -> impl Iterator<Item = usize> {
    let bytes = text.as_bytes();
    (start + 1..=end).rev().filter(move |&at| at == end || matches!(bytes[at], b' ' | b'.' | b'-'))
}

fn digits(text: &str) -> usize {
    text.bytes().filter(u8::is_ascii_digit).count()
}

/// Whether it has a network's first digits and its number of them, and the checksum of Luhn (ISO/IEC 7812).
fn is_card(found: &str) -> bool {
    let digits: Vec<u32> = found.bytes().filter(u8::is_ascii_digit).map(|one| u32::from(one - b'0')).collect();
    if digits.len() < 13 {
        return false;
    }
    let first = |count: usize| digits[..count].iter().fold(0, |number, one| 10 * number + one);
    let lengths = match (first(1), first(2), first(3), first(4)) {
        (4, ..) => [13, 16, 19],
        (_, 51..=55, ..) | (_, _, _, 2221..=2720) => [16, 16, 16],
        (_, 34 | 37, ..) => [15, 15, 15],
        (_, 36 | 38 | 39, ..) | (_, _, 300..=305, _) => [14, 16, 19],
        (_, 35 | 62 | 65, ..) | (_, _, 644..=649, _) | (_, _, _, 6011) => [16, 17, 19],
        _ => return false,
    };
    let doubled = |one: u32| if one > 4 { 2 * one - 9 } else { 2 * one };
    let sum: u32 =
        digits.iter().rev().enumerate().map(|(place, &one)| if place % 2 == 1 { doubled(one) } else { one }).sum();
    lengths.contains(&digits.len()) && sum.is_multiple_of(10)
}

/// The end of an address of a machine; a colon behind it is none of its own.
fn ip(text: &str, start: usize, end: usize) -> Option<usize> {
    let found = &text[start..end];
    if !found.contains(':') || is_ipv6(found) {
        return Some(end);
    }
    found.strip_suffix(':').filter(|shorter| is_ipv6(shorter)).map(|_| end - 1)
}

fn is_ipv6(found: &str) -> bool {
    found.bytes().any(|one| one.is_ascii_digit()) && found.parse::<Ipv6Addr>().is_ok()
}

/// Letters and digits of a country's IBAN, by the registry of ISO 13616.
const IBAN_LENGTHS: &str = "AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DJ27 DK18 DO28 EE20 EG29 ES24 FI18 FK18 FO18 FR27 GB22 GE22 GI23 GL18 \
GR27 GT28 HN28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20 LB28 LC32 LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22 MK19 MN20 MR27 MT31 MU30 NI28 NL18 NO15 OM23 PK24 PL28 PS29 PT25 QA29 \
RO24 RS22 RU33 SA24 SC31 SD18 SE24 SI19 SK24 SM27 SO23 ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20 YE30";

/// The end of an IBAN, single spaces within it left out, whose number is 1 modulo 97.
fn iban(text: &str, start: usize) -> Option<usize> {
    let country = &text[start..start + 2];
    let entry = IBAN_LENGTHS.split_ascii_whitespace().find(|entry| entry.starts_with(country))?;
    let length: usize = entry[2..].parse().ok()?;
    let (bytes, mut letters, mut place) = (text.as_bytes(), Vec::with_capacity(length), start);
    while letters.len() < length {
        match bytes.get(place)? {
            one @ (b'0'..=b'9' | b'A'..=b'Z') => letters.push(*one),
            b' ' if bytes[place - 1] != b' ' => {}
            _ => return None,
        }
        place += 1;
    }
    let number = letters[4..].iter().chain(&letters[..4]).fold(0_u32, |rest, &one| match one {
        b'0'..=b'9' => (10 * rest + u32::from(one - b'0')) % 97,
        _ => (100 * rest + u32::from(one - b'A') + 10) % 97,
    });
    (number == 1).then_some(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redacted(text: &str) -> String {
        let kinds =
            [(Kind::Email, "E"), (Kind::Iban, "B"), (Kind::CreditCard, "C"), (Kind::Ip, "I"), (Kind::Phone, "P")];
        let mut out = String::new();
        redact(text, &kinds.map(|(kind, word)| (kind, word.to_owned())), &mut out);
        out
    }

    #[test]
    fn what_is_found() {
        for (text, expected) in [
            ("mail ann.b+c@mail.example.org, now", "mail E, now"),
            ("DE89 3704 0044 0532 0130 00 THANKS", "B THANKS"),
            ("GB82WEST12345698765432.", "B."),
            ("4111 1111 1111 1111; 3782-822463-10005", "C; C"),
            ("at 192.0.2.17: [2001:db8::1] and ::ffff:192.0.2.1", "at I: [I] and I"),
            ("192.0.2.17:8080 10.0.0.1-10.0.0.5", "I:8080 I-I"),
            ("2001:db8::1: denied, 2001:db8::1-2001:db8::5", "I: denied, I-I"),
            ("4111 1111 1111 1111 12/26", "C 12/26"),
            ("4111-1111-1111-1111 123", "C 123"),
            ("5555555555554444 4111111111111111", "C C"),
            ("4111-1111-1111-1111-123 and 4111111111111111-12/26", "C-123 and C-12/26"),
            ("+49-30-901820-12345-67890, 212-555-0123-45", "P-67890, P-45"),
            ("+49 30 901820 12345 67890", "P 67890"),
            ("212 555 0123, 1 212 555 0123", "P, P"),
            ("+49 30 901820, (212) 555-0123, 212-555-0123, +1 (212) 555-0123", "P, P, P, P"),
        ] {
            assert_eq!(redacted(text), expected);
        }
    }

    #[test]
    fn what_is_not() {
        for text in [
            "DE89 3704 0044 0532 0130 01",
            "XX89370400440532013000",
            "4111 1111 1111 1112",
            "1:2:3:4:5:6:7:8:9 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4",
            "1.2.3.4.5 and 300.1.1.1",
            "12:30:45 std::abc a::b",
            "@ann 3.14 a@b 2024-01-02 12345678",
            "x4111111111111111",
        ] {
            assert_eq!(redacted(text), text);
        }
    }
}
