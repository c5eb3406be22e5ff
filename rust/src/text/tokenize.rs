//! Columns of texts become columns of ids, on all threads.

use std::ops::Range;

use rayon::prelude::*;
use tokenizers::pipeline::PipelineToken;

use super::engine::{Engine, Special};
use super::texts::Texts;
use crate::core::errors::RowFailure;

/// Bytes of text that one task takes.
const TASK_BYTES: usize = 1 << 16;

/// What to make of texts.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether to add what the tokenizer puts around a text.
    pub add_special: bool,
    /// What becomes of special tokens in a text.
    pub special: Special,
    /// So many tokens a row at most, with all that is added.
    pub most: usize,
    /// Whether the last ones are kept, not the first.
    pub keeps_last: bool,
    /// What stands before every row.
    pub begin: Option<u32>,
    /// What stands behind every row.
    pub end: Option<u32>,
    /// Whether to say which bytes each token is.
    pub spans: bool,
    /// Whether to say which text of a pair each token is of.
    pub types: bool,
}

/// Rows of tokens, one behind the other.
#[derive(Default, Debug, PartialEq, Eq)]
pub struct Rows {
    /// Tokens.
    pub ids: Vec<i32>,
    /// Tokens of each row.
    pub lengths: Vec<usize>,
    /// First byte and the one behind the last, of each token; what was added has none, and twice 0.
    pub spans: Vec<i32>,
    /// The type of each token.
    pub types: Vec<u8>,
}

/// Tokens of rows, and the rows that cannot be tokenized, which have none. pairs: second texts.
///
/// # Panics
/// Where both columns have not as many rows.
#[must_use]
pub fn tokenize(
    engine: &Engine,
    options: &Options,
    texts: &Texts<'_>,
    pairs: Option<&Texts<'_>>,
    pool: Option<&rayon::ThreadPool>,
) -> (Vec<Rows>, Vec<RowFailure>) {
    assert!(pairs.is_none_or(|pairs| pairs.rows() == texts.rows()));
    let tasks = tasks(texts, pairs);
    let work = |rows: Range<usize>| Task { engine, options, texts, pairs }.run(rows);
    let made: Vec<(Rows, Vec<RowFailure>)> = match pool {
        Some(pool) if tasks.len() > 1 => pool.install(|| tasks.into_par_iter().map(work).collect()),
        _ => tasks.into_iter().map(work).collect(),
    };
    let (parts, failures): (Vec<Rows>, Vec<Vec<RowFailure>>) = made.into_iter().unzip();
    (parts, failures.into_iter().flatten().collect())
}

/// Rows that are done together.
fn tasks(texts: &Texts<'_>, pairs: Option<&Texts<'_>>) -> Vec<Range<usize>> {
    let (mut made, mut first) = (Vec::new(), 0);
    for row in 0..texts.rows() {
        let size = texts.size(first, row + 1) + pairs.map_or(0, |pairs| pairs.size(first, row + 1));
        if size >= TASK_BYTES || row + 1 == texts.rows() {
            made.push(first..row + 1);
            first = row + 1;
        }
    }
    made
}

struct Task<'a> {
    engine: &'a Engine,
    options: &'a Options,
    texts: &'a Texts<'a>,
    pairs: Option<&'a Texts<'a>>,
}

/// A text's tokens, and the first and last byte of each.
#[derive(Default)]
struct Tokens {
    ids: Vec<PipelineToken>,
    spans: Vec<i32>,
}

impl Task<'_> {
    fn run(&self, rows: Range<usize>) -> (Rows, Vec<RowFailure>) {
        let (mut made, mut failures) = (Rows::default(), Vec::new());
        made.ids.reserve(self.texts.size(rows.start, rows.end) / 4 + 2 * rows.len());
        let (mut one, mut other) = (Tokens::default(), Tokens::default());
        for row in rows {
            let before = made.ids.len();
            if let Err(found) = self.row(row, &mut one, &mut other, &mut made) {
                made.ids.truncate(before);
                made.types.truncate(before);
                made.spans.truncate(2 * before);
                let remedy = if found.starts_with("the text holds the special") {
                    "say Tokenize(special_in_text=\"as_text\") for its letters, or \"as_token\" for its id"
                } else if found.ends_with("has no token for") {
                    "train the tokenizer with all bytes (initial_alphabet=ByteLevel.alphabet()), or leave the row out"
                } else {
                    "repair the row or leave it out"
                };
                failures.push(RowFailure { row, found, remedy: remedy.to_owned() });
            }
            made.lengths.push(made.ids.len() - before);
        }
        (made, failures)
    }

    fn row(&self, row: usize, one: &mut Tokens, other: &mut Tokens, made: &mut Rows) -> Result<(), String> {
        let Some(text) = self.texts.text(row)? else { return Ok(()) };
        self.encode(text, one)?;
        let has_pair = match self.pairs.map_or(Ok(None), |pairs| pairs.text(row))? {
            Some(second) => self.encode(second, other).map(|()| true)?,
            None if self.pairs.is_some() => return Err("it has no second text".to_owned()),
            None => false,
        };
        let templates = self.engine.templates();
        let template = if has_pair { templates.1 } else { templates.0 };
        let added = if self.options.add_special { template.n_special() } else { 0 };
        let room =
            self.options.most.checked_sub(added + [self.options.begin, self.options.end].iter().flatten().count());
        let room = room.ok_or_else(|| format!("{} tokens have no room for what is added", self.options.most))?;
        let (first, second) = kept(one.ids.len(), if has_pair { Some(other.ids.len()) } else { None }, room);
        let mut out = Out { options: self.options, made };
        if let Some(begin) = self.options.begin {
            out.token(begin, template.a_type_id)?;
        }
        out.added(&template.prefix);
        out.text(one, first, template.a_type_id)?;
        out.added(&template.infix);
        if has_pair {
            out.text(other, second, template.b_type_id.unwrap_or(0))?;
        }
        out.added(&template.suffix);
        if let Some(end) = self.options.end {
            out.token(end, template.b_type_id.filter(|_| has_pair).unwrap_or(template.a_type_id))?;
        }
        Ok(())
    }

    fn encode(&self, text: &str, out: &mut Tokens) -> Result<(), String> {
        out.ids.clear();
        out.spans.clear();
        self.engine.encode(text, self.options.special, &mut out.ids)?;
        if self.options.spans { self.engine.spans(text, &out.ids, &mut out.spans) } else { Ok(()) }
    }
}

/// How many tokens of one text and of another stay: the longer one loses more.
fn kept(one: usize, other: Option<usize>, room: usize) -> (usize, usize) {
    let Some(other) = other else { return (one.min(room), 0) };
    if one + other <= room {
        return (one, other);
    }
    let (short, half) = (one.min(other), room / 2);
    let short = if short > half { half } else { short };
    let long = room - short;
    if one <= other { (short, long) } else { (long, short) }
}

struct Out<'a> {
    options: &'a Options,
    made: &'a mut Rows,
}

impl Out<'_> {
    fn added(&mut self, run: &[(PipelineToken, u8)]) {
        if !self.options.add_special {
            return;
        }
        for &(token, kind) in run {
            self.made.ids.push(token.id() as i32);
            self.beside(kind);
        }
    }

    fn token(&mut self, id: u32, kind: u8) -> Result<(), String> {
        self.made.ids.push(i32::try_from(id).map_err(|_| format!("the id {id} is beyond int32"))?);
        self.beside(kind);
        Ok(())
    }

    fn beside(&mut self, kind: u8) {
        if self.options.types {
            self.made.types.push(kind);
        }
        if self.options.spans {
            self.made.spans.extend([0, 0]);
        }
    }

    /// So many tokens of a text.
    fn text(&mut self, tokens: &Tokens, count: usize, kind: u8) -> Result<(), String> {
        let first = if self.options.keeps_last { tokens.ids.len() - count } else { 0 };
        let ids = &tokens.ids[first..first + count];
        if let Some(token) = ids.iter().find(|token| i32::try_from(token.id()).is_err()) {
            return Err(format!("the id {} is beyond int32", token.id()));
        }
        self.made.ids.extend(ids.iter().map(|token| token.id() as i32));
        if self.options.types {
            self.made.types.resize(self.made.types.len() + count, kind);
        }
        if self.options.spans {
            self.made.spans.extend_from_slice(&tokens.spans[2 * first..2 * (first + count)]);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longer_text_loses_more() {
        assert_eq!(kept(5, None, 3), (3, 0));
        assert_eq!(kept(2, Some(3), 5), (2, 3));
        assert_eq!(kept(2, Some(9), 5), (2, 3));
        assert_eq!(kept(9, Some(1), 5), (4, 1));
        assert_eq!(kept(9, Some(9), 5), (2, 3));
        assert_eq!(kept(9, Some(9), 0), (0, 0));
    }
}
