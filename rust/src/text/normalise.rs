//! Text in one of Unicode's normal forms, in lower case, and with white space in one way.

use std::borrow::Cow;

use unicode_normalization::{
    IsNormalized, UnicodeNormalization, is_nfc_quick, is_nfd_quick, is_nfkc_quick, is_nfkd_quick,
};

use super::characters::{is_space, lines, split};

/// A normal form of Unicode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As it is.
    Kept,
    /// Composed.
    Nfc,
    /// Taken apart.
    Nfd,
    /// Composed, compatible characters as one.
    Nfkc,
    /// Taken apart, compatible characters as one.
    Nfkd,
}

/// What becomes of white space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spaces {
    /// It stays.
    Kept,
    /// Each run becomes a space, and none is left at both ends.
    Single,
    /// The same in each line; lines without anything else are left out.
    Lines,
}

/// What is done, in this order.
#[derive(Clone, Copy, Debug)]
pub struct Normalise {
    /// The normal form.
    pub form: Form,
    /// Whether it is in lower case.
    pub lowercase: bool,
    /// White space.
    pub spaces: Spaces,
}

impl Normalise {
    /// Writes what becomes of a text.
    pub fn write(&self, text: &str, out: &mut String) {
        let formed = formed(text, self.form);
        let cased = match self.lowercase {
            true if formed.is_ascii() => Cow::Owned(formed.to_ascii_lowercase()),
            true => Cow::Owned(formed.to_lowercase()),
            false => formed,
        };
        match self.spaces {
            Spaces::Kept => out.push_str(&cased),
            Spaces::Single => single(&cased, out),
            Spaces::Lines => {
                let begin = out.len();
                for line in lines(&cased).filter(|line| !line.chars().all(is_space)) {
                    if out.len() > begin {
                        out.push('\n');
                    }
                    single(line, out);
                }
            }
        }
    }
}

fn single(text: &str, out: &mut String) {
    for (number, word) in split(text).enumerate() {
        if number > 0 {
            out.push(' ');
        }
        out.push_str(word);
    }
}

fn formed(text: &str, form: Form) -> Cow<'_, str> {
    let is = |quick: IsNormalized| quick == IsNormalized::Yes;
    let is_done = text.is_ascii()
        || match form {
            Form::Kept => true,
            Form::Nfc => is(is_nfc_quick(text.chars())),
            Form::Nfd => is(is_nfd_quick(text.chars())),
            Form::Nfkc => is(is_nfkc_quick(text.chars())),
            Form::Nfkd => is(is_nfkd_quick(text.chars())),
        };
    match form {
        _ if is_done => Cow::Borrowed(text),
        Form::Nfc => Cow::Owned(text.nfc().collect()),
        Form::Nfd => Cow::Owned(text.nfd().collect()),
        Form::Nfkc => Cow::Owned(text.nfkc().collect()),
        Form::Nfkd => Cow::Owned(text.nfkd().collect()),
        Form::Kept => Cow::Borrowed(text),
    }
}
