//! C4's rules of quality (Raffel et al. 2020), as datatrove's C4QualityFilter has them: lines that are left out, and texts of which nothing is kept.

use std::borrow::Cow;
use std::sync::LazyLock;

use memchr::memmem::Finder;
use regex::Regex;

use super::super::characters::{length, lines, split, strip};
use super::{Rules, Scratch};
use crate::text::words::{Word, sentence_starts};

/// What is asked.
#[allow(clippy::struct_excessive_bools)] // each is a rule of its own
pub struct C4 {
    /// Whether lines are looked at; otherwise sentences.
    pub split_paragraph: bool,
    /// Whether "[1]", "[edit]" and "[citation needed]" are left out.
    pub remove_citations: bool,
    /// Whether a line must end a sentence.
    pub filter_no_terminal_punct: bool,
    /// Sentences at least, -1 for any number.
    pub min_num_sentences: i64,
    /// Words of a line at least.
    pub min_words_per_line: i64,
    /// Characters of a word at most, -1 for any number.
    pub max_word_length: i64,
    /// Whether "lorem ipsum" drops a text.
    pub filter_lorem_ipsum: bool,
    /// Whether "javascript" drops a line.
    pub filter_javascript: bool,
    /// Whether "{" drops a text.
    pub filter_curly_bracket: bool,
    /// Whether words about cookies and terms of use drop a line.
    pub filter_policy: bool,
}

static CITATION: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\[\d*\]|\[edit\]|\[citation needed\]").expect("the pattern is fixed"));
const POLICY: [&str; 6] =
    ["terms of use", "privacy policy", "cookie policy", "uses cookies", "use of cookies", "use cookies"];

impl Rules for C4 {
    fn names(&self) -> Vec<String> {
        ["", "lorem_ipsum", "curly_bracket", "too_few_sentences"].map(str::to_owned).to_vec()
    }

    fn broken(&self, text: &str, scratch: &mut Scratch) -> u8 {
        self.edited(text, scratch).err().unwrap_or(0)
    }
}

impl C4 {
    /// What is kept of a text.
    ///
    /// # Errors
    /// The number of the rule by which nothing is kept.
    pub fn edited(&self, text: &str, scratch: &mut Scratch) -> Result<String, u8> {
        let pieces: Vec<&str> = if self.split_paragraph { lines(text).collect() } else { sentences(text, scratch) };
        let (mut kept, mut count) = (Vec::new(), 0);
        for line in pieces {
            let line = strip(line);
            let (mut words, mut longest) = (0, 0);
            for word in split(line) {
                words += 1;
                longest = longest.max(word.len());
            }
            let is_long = |most: usize| longest > most && split(line).any(|word| length(word) > most);
            if self.max_word_length != -1 && usize::try_from(self.max_word_length).map_or(words > 0, is_long) {
                continue;
            }
            let line = if self.remove_citations && line.contains('[') {
                CITATION.replace_all(line, "")
            } else {
                Cow::Borrowed(line)
            };
            if self.filter_no_terminal_punct && (!line.ends_with(['.', '?', '!', '"', '\'']) || line.ends_with("...")) {
                continue;
            }
            if words < self.min_words_per_line {
                continue;
            }
            let lower = if line.is_ascii() { line.to_ascii_lowercase() } else { line.to_lowercase() };
            let has = |part: &str| Finder::new(part).find(lower.as_bytes()).is_some();
            if self.filter_lorem_ipsum && has("lorem ipsum") {
                return Err(1);
            }
            if self.filter_javascript && has("javascript") {
                continue;
            }
            if self.filter_curly_bracket && line.contains('{') {
                return Err(2);
            }
            if self.filter_policy && POLICY.iter().any(|part| has(part)) {
                continue;
            }
            if self.min_num_sentences != -1 {
                count += if self.split_paragraph { count_sentences(&line, scratch) } else { 1 };
            }
            kept.push(line);
        }
        if count < self.min_num_sentences {
            return Err(3);
        }
        let joined = kept.join(if self.split_paragraph { "\n" } else { " " });
        Ok(strip(&joined).to_owned())
    }
}

fn split_with_spaces<'a>(text: &str, scratch: &'a mut Scratch) -> &'a [Word] {
    scratch.splitter.split(text, &mut scratch.words, true);
    &scratch.words
}

fn count_sentences(line: &str, scratch: &mut Scratch) -> i64 {
    let found = sentence_starts(line, split_with_spaces(line, scratch)).len();
    found.max(1) as i64 // of no words, datatrove makes one part
}

/// The sentences of a text, each with the white space in front of it.
fn sentences<'a>(text: &'a str, scratch: &mut Scratch) -> Vec<&'a str> {
    let words = split_with_spaces(text, scratch);
    let ends: Vec<usize> = {
        let starts = sentence_starts(text, words);
        let mut ends: Vec<usize> = starts
            .iter()
            .skip(1)
            .map(|&start| {
                words[..words.partition_point(|word| word.start < start)].last().map_or(0, |word| word.end as usize)
            })
            .collect();
        ends.push(text.len());
        ends
    };
    let mut begin = 0;
    ends.into_iter().map(|end| &text[std::mem::replace(&mut begin, end)..end]).collect()
}
