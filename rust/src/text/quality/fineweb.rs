//! FineWeb's rules of quality (Penedo et al. 2024), as datatrove's FineWebQualityFilter has them.

use super::super::characters::{Classes, class, length, strip};
use super::{Rules, Scratch, ratio};

/// Thresholds.
pub struct FineWeb {
    /// The part of lines that end a sentence, at least.
    pub line_punct_thr: f64,
    /// Whether no such line at all is well, too.
    pub line_punct_exclude_zero: bool,
    /// What ends a sentence; None for the ends that Unicode has.
    pub stop_chars: Option<Vec<String>>,
    /// The part of short lines, at most.
    pub short_line_thr: f64,
    /// Characters of a short line, at most.
    pub short_line_length: usize,
    /// The part of characters in lines that came before, at most.
    pub char_duplicates_ratio: f64,
    /// Line feeds a word, at most.
    pub new_line_ratio: f64,
}

impl Rules for FineWeb {
    fn names(&self) -> Vec<String> {
        ["", "empty", "line_punct_ratio", "short_line_ratio", "char_dup_ratio", "list_ratio"]
            .map(str::to_owned)
            .to_vec()
    }

    fn broken(&self, text: &str, scratch: &mut Scratch) -> u8 {
        let classes = Classes::get();
        let lines: Vec<&str> = text.split('\n').filter(|line| !strip(line).is_empty()).collect();
        if lines.is_empty() {
            return 1;
        }
        let ends = |line: &&&str| match &self.stop_chars {
            Some(stops) => stops.iter().any(|stop| line.ends_with(stop.as_str())),
            None => line.chars().next_back().is_some_and(|last| classes.is(last, class::STOPS)),
        };
        let ended = ratio(lines.iter().filter(ends).count(), lines.len());
        if ended < self.line_punct_thr && !(ended == 0.0 && self.line_punct_exclude_zero) {
            return 2;
        }
        let short = lines.iter().filter(|line| length(line) <= self.short_line_length).count();
        if ratio(short, lines.len()) > self.short_line_thr {
            return 3;
        }
        let feeds = memchr::memchr_iter(b'\n', text.as_bytes()).count();
        if ratio(scratch.seen.repeated(&lines).1, length(text) - feeds) > self.char_duplicates_ratio {
            return 4;
        }
        scratch.splitter.split(text, &mut scratch.words, false);
        if ratio(feeds, scratch.words.len()) > self.new_line_ratio {
            return 5;
        }
        0
    }
}
