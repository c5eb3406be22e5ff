//! The words of an English text, as spaCy's blank English tokenizer splits them: white space, exceptions, what is split off in front, behind and inside, and
//! addresses, which stay whole. `tests/transform/test_text_words.py` compares with spaCy.

mod affixes;
mod exceptions;
mod phrases;
#[rustfmt::skip]
pub mod tables;
mod url;

use std::sync::LazyLock;

use super::characters::{Classes, class, is_space};
use exceptions::Exceptions;
use phrases::Phrases;

/// Where a word lies in its text, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word {
    /// Its first byte.
    pub start: u32,
    /// The first byte behind it.
    pub end: u32,
}

impl Word {
    /// Its letters.
    #[must_use]
    pub fn of(self, text: &str) -> &str {
        &text[self.start as usize..self.end as usize]
    }
}

/// What all texts are split by.
struct Rules {
    exceptions: Exceptions,
    phrases: Phrases,
}

static RULES: LazyLock<Rules> = LazyLock::new(|| Rules { exceptions: Exceptions::new(), phrases: Phrases::new() });

/// Kinds of bytes, or-ed together while a run is scanned.
const LETTER: u8 = 1;
const DIGIT: u8 = 2;
const OTHER: u8 = 4;
const SPACE: u8 = 8;
const WIDE: u8 = 16;

static KINDS: [u8; 256] = {
    let mut kinds = [OTHER; 256];
    let mut byte = 0;
    while byte < 256 {
        kinds[byte] = match byte as u8 {
            b'a'..=b'z' | b'A'..=b'Z' => LETTER,
            b'0'..=b'9' => DIGIT,
            9..=13 | 28..=32 => SPACE,
            128.. => WIDE,
            _ => OTHER,
        };
        byte += 1;
    }
    kinds
};

/// Splits texts.
pub struct Splitter {
    rules: &'static Rules,
    classes: Classes,
    suffixes: Vec<Word>,
}

impl Default for Splitter {
    fn default() -> Self {
        Self { rules: &RULES, classes: Classes::get(), suffixes: Vec::new() }
    }
}

impl Splitter {
    /// Replaces `words` by those of a text of less than 4 GiB; with_spaces: with runs of white space, without a first space behind a word.
    pub fn split(&mut self, text: &str, words: &mut Vec<Word>, with_spaces: bool) {
        words.clear();
        let bytes = text.as_bytes();
        let mut place = 0;
        while place < bytes.len() {
            let begin = place;
            let mut kinds = 0;
            while place < bytes.len() {
                let kind = KINDS[bytes[place] as usize];
                if kind == SPACE {
                    break;
                }
                let mut width = 1;
                if kind == WIDE {
                    let one = wide(bytes, place);
                    if one.is_none() {
                        break;
                    }
                    width = one.unwrap_or(1);
                }
                kinds |= kind;
                place += width;
            }
            if begin < place {
                self.run(text, begin, place, kinds, words);
            }
            let (behind, mut first) = (place > begin, true);
            let mut spaces = place;
            while place < bytes.len() {
                let kind = KINDS[bytes[place] as usize];
                if kind == SPACE {
                    place += 1;
                } else if kind == WIDE && wide(bytes, place).is_none() {
                    place += text[place..].chars().next().map_or(1, char::len_utf8);
                } else {
                    break;
                }
                if std::mem::take(&mut first) && behind && bytes[place - 1] == b' ' && place - spaces == 1 {
                    spaces = place;
                }
            }
            if with_spaces && spaces < place {
                words.push(word(spaces, place));
            }
        }
        self.rules.phrases.put_together(text, words, &self.rules.exceptions);
    }

    /// The runs that are split in their own way.
    pub fn exceptions() -> impl Iterator<Item = &'static [u8]> {
        RULES.exceptions.wholes().iter().map(|whole| whole.as_bytes())
    }

    /// Whether a run of ASCII letters alone, or of digits alone, is one word.
    #[must_use]
    pub fn is_whole(&self, run: &[u8]) -> bool {
        self.rules.exceptions.parts(run).is_none()
    }

    /// The words of a run without white space.
    fn run(&mut self, text: &str, start: usize, end: usize, kinds: u8, words: &mut Vec<Word>) {
        let whole = &text[start..end];
        if let Some(parts) = self.rules.exceptions.parts(whole.as_bytes()) {
            push_parts(start, parts, words);
        } else if kinds == LETTER || kinds == DIGIT {
            words.push(word(start, end));
        } else {
            self.taken_apart(text, start, end, words);
        }
    }

    /// The words of a run that is no exception.
    fn taken_apart(&mut self, text: &str, mut start: usize, mut end: usize, words: &mut Vec<Word>) {
        let (exceptions, classes) = (&self.rules.exceptions, self.classes);
        self.suffixes.clear();
        let special = loop {
            let run = &text[start..end];
            let special = exceptions.parts(run.as_bytes());
            if run.is_empty() || special.is_some() {
                break special;
            }
            let front = affixes::prefix(run, classes);
            if front > 0
                && let Some(parts) = exceptions.parts(&run.as_bytes()[front..])
            {
                words.push(word(start, start + front));
                start += front;
                break Some(parts);
            }
            let back = affixes::suffix(&run[front..], classes);
            if back > 0
                && let Some(parts) = exceptions.parts(&run.as_bytes()[..run.len() - back])
            {
                self.suffixes.push(word(end - back, end));
                end -= back;
                break Some(parts);
            }
            if front + back == 0 {
                break None;
            }
            if front > 0 {
                words.push(word(start, start + front));
                start += front;
            }
            if back > 0 {
                self.suffixes.push(word(end - back, end));
                end -= back;
            }
        };
        if let Some(parts) = special {
            push_parts(start, parts, words);
        } else if start < end {
            let run = &text[start..end];
            if url::is_match(run) {
                words.push(word(start, end));
            } else {
                affixes::split_inside(run, classes, |from, to| words.push(word(start + from, start + to)));
            }
        }
        words.extend(self.suffixes.iter().rev());
    }
}

/// How many sentences words make, as spaCy's sentencizer counts them, and where they start; the words come with white space.
pub fn sentence_starts(text: &str, words: &[Word]) -> Vec<u32> {
    let classes = Classes::get();
    let mut starts = Vec::new();
    let (mut start, mut has_ended) = (0, false);
    for (number, one) in words.iter().enumerate() {
        let letters = one.of(text);
        let mut characters = letters.chars();
        let first = characters.next().unwrap_or(' ');
        let ends = characters.next().is_none() && classes.is(first, class::SENTENCE_ENDS);
        let is_punctuation = || letters.chars().all(|one| classes.is(one, class::PUNCTUATION_CATEGORY));
        if has_ended && !ends && !is_punctuation() {
            starts.push(words[start].start);
            (start, has_ended) = (number, false);
        } else if ends {
            has_ended = true;
        }
    }
    if let Some(last) = words.get(start) {
        starts.push(last.start);
    }
    starts
}

/// Bytes of a character that is no white space; None for one that is.
fn wide(bytes: &[u8], place: usize) -> Option<usize> {
    let first = bytes[place];
    let width = if first < 0xe0 {
        2
    } else if first < 0xf0 {
        3
    } else {
        4
    };
    if !matches!(first, 0xc2 | 0xe1 | 0xe2 | 0xe3) {
        return Some(width);
    }
    let code = bytes[place + 1..place + width]
        .iter()
        .fold(u32::from(first) & (0x7f >> width), |code, &one| code << 6 | u32::from(one & 0x3f));
    char::from_u32(code).is_none_or(|one| !is_space(one)).then_some(width)
}

fn push_parts(mut start: usize, parts: &[&str], words: &mut Vec<Word>) {
    for part in parts {
        words.push(word(start, start + part.len()));
        start += part.len();
    }
}

#[allow(clippy::cast_possible_truncation)] // texts have less than 4 GiB
fn word(start: usize, end: usize) -> Word {
    Word { start: start as u32, end: end as u32 }
}
