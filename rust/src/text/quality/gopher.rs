//! Gopher's rules of quality (Rae et al. 2021, arXiv 2112.11446), as datatrove's GopherQualityFilter has them.

use super::super::characters::{Classes, class, is_space, length, lines};
use super::repetition::Repetition;
use super::{Rules, Scratch, given, ratio};

/// Thresholds; of one that is None or 0 nothing is asked.
pub struct Gopher {
    /// Words at least, without those of punctuation alone.
    pub min_doc_words: Option<f64>,
    /// The same at most.
    pub max_doc_words: Option<f64>,
    /// Characters of a word at least, on average.
    pub min_avg_word_length: Option<f64>,
    /// The same at most.
    pub max_avg_word_length: Option<f64>,
    /// "#" a word at most, and ellipses.
    pub max_symbol_word_ratio: Option<f64>,
    /// The part of lines that begin with a bullet, at most.
    pub max_bullet_lines_ratio: Option<f64>,
    /// The part of lines that end with an ellipsis, at most.
    pub max_ellipsis_lines_ratio: Option<f64>,
    /// The part of words with a letter, at least.
    pub max_non_alpha_words_ratio: Option<f64>,
    /// Stop words at least.
    pub min_stop_words: Option<f64>,
    /// Which these are.
    pub stop_words: Vec<String>,
    /// Rules about repetition, looked at afterwards.
    pub repetition: Option<Repetition>,
}

const NAMES: [&str; 10] = [
    "",
    "gopher_short_doc",
    "gopher_long_doc",
    "gopher_below_avg_threshold",
    "gopher_above_avg_threshold",
    "gopher_too_many_hashes",
    "gopher_too_many_ellipsis",
    "gopher_too_many_bullets",
    "gopher_too_many_end_ellipsis",
    "gopher_below_alpha_threshold",
];

impl Rules for Gopher {
    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = NAMES.iter().map(|&name| name.to_owned()).collect();
        names.push("gopher_enough_stop_words".to_owned());
        names.extend(self.repetition.iter().flat_map(Repetition::names));
        names
    }

    fn broken(&self, text: &str, scratch: &mut Scratch) -> u8 {
        scratch.splitter.split(text, &mut scratch.words, false);
        let first = self.of_quality(text, scratch);
        if first > 0 {
            return first;
        }
        let found = self.repetition.as_ref().map_or(0, |rules| rules.broken(text, scratch));
        if found == 0 { 0 } else { NAMES.len() as u8 + found }
    }
}

impl Gopher {
    fn of_quality(&self, text: &str, scratch: &Scratch) -> u8 {
        let (classes, all) = (Classes::get(), scratch.words.len());
        let (mut counted, mut characters, mut with_letter) = (0, 0, 0);
        for word in &scratch.words {
            let letters = word.of(text);
            let is_plain = letters.as_bytes()[0].is_ascii_alphabetic();
            with_letter += usize::from(is_plain || letters.chars().any(|one| classes.is(one, class::LETTERS)));
            if is_plain || letters.chars().any(|one| !classes.is(one, class::PUNCTUATION)) {
                counted += 1;
                characters += length(letters);
            }
        }
        let count = |symbol: &str| memchr::memmem::find_iter(text.as_bytes(), symbol.as_bytes()).count();
        let average = characters as f64 / counted as f64; // of no words NaN, which is neither above nor below
        let below = |value: f64, least| given(least).is_some_and(|least| value < least);
        let above = |value: f64, most| given(most).is_some_and(|most| value > most);
        if below(counted as f64, self.min_doc_words) {
            return 1;
        }
        if above(counted as f64, self.max_doc_words) {
            return 2;
        }
        if below(average, self.min_avg_word_length) {
            return 3;
        }
        if above(average, self.max_avg_word_length) {
            return 4;
        }
        if above(ratio(count("#"), all), self.max_symbol_word_ratio) {
            return 5;
        }
        if above(ratio(count("...") + count("…"), all), self.max_symbol_word_ratio) {
            return 6;
        }
        let (mut every, mut bullets, mut ellipses) = (0, 0, 0);
        for line in lines(text) {
            every += 1;
            bullets += usize::from(line.trim_start_matches(is_space).starts_with(['•', '-']));
            let end = line.trim_end_matches(is_space);
            ellipses += usize::from(end.ends_with("...") || end.ends_with('…'));
        }
        if above(ratio(bullets, every), self.max_bullet_lines_ratio) {
            return 7;
        }
        if above(ratio(ellipses, every), self.max_ellipsis_lines_ratio) {
            return 8;
        }
        if below(ratio(with_letter, all), self.max_non_alpha_words_ratio) {
            return 9;
        }
        if given(self.min_stop_words).is_some_and(|least| !self.has_stop_words(text, scratch, least)) {
            return 10;
        }
        0
    }

    fn has_stop_words(&self, text: &str, scratch: &Scratch, least: f64) -> bool {
        let mut left: Vec<&str> = self.stop_words.iter().map(String::as_str).collect();
        let all = left.len();
        for word in &scratch.words {
            let letters = word.of(text);
            if let Some(place) = left.iter().position(|&one| one == letters) {
                left.swap_remove(place);
                if (all - left.len()) as f64 >= least {
                    return true;
                }
            }
        }
        (all - left.len()) as f64 >= least
    }
}
