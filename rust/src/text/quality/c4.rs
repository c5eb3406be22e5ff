//! C4's rules of quality (Raffel et al. 2020), as datatrove's C4QualityFilter has them: lines that are left out, and texts of which nothing is kept.

use std::borrow::Cow;
use std::sync::LazyLock;

use memchr::memmem::Finder;
use regex::Regex;

use super::super::characters::{is_ascii_space, length, lines, split, strip};
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
static LOREM_IPSUM: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("lorem ipsum"));
static JAVASCRIPT: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("javascript"));
static POLICY: LazyLock<Vec<Finder<'static>>> = LazyLock::new(|| {
    ["terms of use", "privacy policy", "cookie policy", "uses cookies", "use of cookies", "use cookies"]
        .map(Finder::new)
        .into()
});

impl Rules for C4 {
    fn names(&self) -> Vec<String> {
        ["", "lorem_ipsum", "curly_bracket", "too_few_sentences"].map(str::to_owned).to_vec()
    }

    fn broken(&self, text: &str, scratch: &mut Scratch) -> u8 {
        self.kept(text, scratch).err().unwrap_or(0)
    }
}

impl C4 {
    /// What is kept of a text.
    ///
    /// # Errors
    /// The number of the rule by which nothing is kept.
    pub fn edited(&self, text: &str, scratch: &mut Scratch) -> Result<String, u8> {
        let joined = self.kept(text, scratch)?.join(if self.split_paragraph { "\n" } else { " " });
        Ok(strip(&joined).to_owned())
    }

    /// The lines, or sentences, that are kept.
    fn kept<'a>(&self, text: &'a str, scratch: &mut Scratch) -> Result<Vec<Cow<'a, str>>, u8> {
        let mut kept = Vec::new();
        if self.split_paragraph {
            lines(text).try_for_each(|line| self.keep(line, scratch, &mut kept))?;
        } else {
            sentences(text, scratch).into_iter().try_for_each(|line| self.keep(line, scratch, &mut kept))?;
        }
        if self.min_num_sentences == -1 || self.has_sentences(&kept, scratch) { Ok(kept) } else { Err(3) }
    }

    /// Adds a line, unless a rule leaves it out. Rules that do this are looked at in another order than datatrove's, the cheap ones first, which makes no difference.
    fn keep<'a>(&self, line: &'a str, scratch: &mut Scratch, kept: &mut Vec<Cow<'a, str>>) -> Result<(), u8> {
        let whole = strip(line);
        let line = if self.remove_citations && whole.contains('[') {
            CITATION.replace_all(whole, "")
        } else {
            Cow::Borrowed(whole)
        };
        if self.filter_no_terminal_punct && (!line.ends_with(['.', '?', '!', '"', '\'']) || line.ends_with("...")) {
            return Ok(());
        }
        let (words, longest) = counted(whole);
        let is_long = |most: usize| longest > most && split(whole).any(|word| length(word) > most);
        let has_long = self.max_word_length != -1 && usize::try_from(self.max_word_length).map_or(words > 0, is_long);
        if has_long || words < self.min_words_per_line {
            return Ok(());
        }
        scratch.lower.clear();
        if line.is_ascii() {
            scratch.lower.push_str(&line);
            scratch.lower.make_ascii_lowercase();
        } else {
            scratch.lower.push_str(&line.to_lowercase());
        }
        let has = |part: &Finder<'_>| part.find(scratch.lower.as_bytes()).is_some();
        if self.filter_lorem_ipsum && has(&LOREM_IPSUM) {
            return Err(1);
        }
        if self.filter_javascript && has(&JAVASCRIPT) {
            return Ok(());
        }
        if self.filter_curly_bracket && line.contains('{') {
            return Err(2);
        }
        if !(self.filter_policy && POLICY.iter().any(has)) {
            kept.push(line);
        }
        Ok(())
    }

    /// Whether there are as many sentences as asked for. Each line has one, so that most texts need no more than to count lines.
    fn has_sentences(&self, kept: &[Cow<'_, str>], scratch: &mut Scratch) -> bool {
        let mut count = kept.len() as i64;
        let mut lines = kept.iter();
        while count < self.min_num_sentences && self.split_paragraph {
            let Some(line) = lines.next() else { break };
            count += count_sentences(line, scratch) - 1;
        }
        count >= self.min_num_sentences
    }
}

/// How many words there are between white space, and bytes of the longest.
fn counted(text: &str) -> (i64, usize) {
    let (mut words, mut longest) = (0, 0);
    if !text.is_ascii() {
        for word in split(text) {
            words += 1;
            longest = longest.max(word.len());
        }
        return (words, longest);
    }
    let mut length = 0;
    for &byte in text.as_bytes() {
        words += i64::from(length == 0 && !is_ascii_space(byte));
        length = if is_ascii_space(byte) { 0 } else { length + 1 };
        longest = longest.max(length);
    }
    (words, longest)
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
