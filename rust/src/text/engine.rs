//! The tokenizer behind `tokenize`: the one file that knows the library which does it.
//!
//! The library reads `tokenizer.json` of its newest form; older files are brought into that first. What it would read as another tokenizer than the file describes is refused here.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use serde_json::Value;
use tokenizers::pipeline::{
    EncodeOptions, Model, Override, PipelineModel, PipelinePatternMatcher, PipelinePreTokenizer, PipelineToken,
    PipelineTokenizer, PreTokenizer, PreTokenizerScratch, Segment, Span, SpecialSegmentIterator, Template,
    normalize_all,
};
use tokenizers::utils::SysRegex;
use tokenizers::vocab::bucket_added_vocabulary::AddedVocabulary;

use super::guarded::guarded;
use super::sentencepiece::{self, Model as Pieces};
use super::slow_splits;
use super::vocabulary::{self, MOST_ID, letter};

/// What the library answers.
type Encoded = tokenizers::Result<()>;

/// What becomes of a special token that stands in a text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Special {
    /// The row is bad.
    Error,
    /// Its letters are tokenized as any others.
    AsText,
    /// It becomes its id.
    AsToken,
}

/// Letters of a word of WordPiece, for so many of which the library takes memory ahead.
const LONGEST_WORD: u64 = 1 << 20;

/// Bytes of a word or of a text for which room is not kept: a word takes forty times as much.
const LONG: usize = 1 << 18;

/// What a thread works with, again and again.
struct Scratch {
    model: <PipelineModel as Model>::Scratch,
    cut: PreTokenizerScratch,
    spans: Vec<Span>,
}

/// A tokenizer, ready for any number of threads.
pub struct Engine {
    inner: PipelineTokenizer,
    /// Whether the blanks at a text's end are one piece.
    ends_whole: bool,
    /// How texts are cut by a regular expression, which the library reads and does not compile.
    cut: Option<PipelinePreTokenizer>,
    spare: Mutex<Vec<Scratch>>,
    specials: HashMap<u32, String>,
    specials_are_normalized: bool,
    ids: HashMap<String, u32>,
    splits_slowly: bool,
    lengths: Option<Vec<u32>>,
    /// Of models of SentencePiece: what goes before the library.
    pieces: Option<Pieces>,
    /// Whether the library's tokens are letters that stand for bytes.
    maps_bytes: bool,
    /// What stands behind a word, "</w>" for example; "" for nothing.
    suffix: String,
    /// Ids from here on stand for bytes that the tokenizer has no token for.
    first_lost: u32,
}

impl Engine {
    /// The tokenizer that a `tokenizer.json` describes.
    ///
    /// # Errors
    /// In words, where it is none, or one that is not read exactly.
    pub fn of_json(text: &str) -> Result<Self, String> {
        let mut value: Value = serde_json::from_str(text).map_err(|error| format!("it is no JSON ({error})"))?;
        let ids = vocabulary::check_ids(&value)?;
        if let Some(most) = value["model"]["max_input_chars_per_word"].as_u64().filter(|&most| most > LONGEST_WORD) {
            return Err(format!(
                "its words may have {most} letters (max_input_chars_per_word), more than {LONGEST_WORD}"
            ));
        }
        guarded(|| tokenizers::canonicalize_value(&mut value).map_err(|error| error.to_string()))?;
        let first_lost = vocabulary::with_lost_bytes(&mut value, &ids);
        let mut made = Self::of_value(&value, ids, false)?;
        made.first_lost = first_lost;
        made.check_templates()?;
        Ok(made)
    }

    /// Looks whether what stands around texts are tokens of the vocabulary; in words, for one that is not.
    fn check_templates(&self) -> Result<(), String> {
        let (single, pair) = self.templates();
        let runs = [single, pair].map(|one| [&one.prefix, &one.infix, &one.suffix]);
        for (token, _) in runs.iter().flatten().flat_map(|run| run.iter()) {
            if !self.ids.values().any(|&id| id == token.id()) {
                return Err(format!("its post-processor adds the id {}, which no token has", token.id()));
            }
        }
        Ok(())
    }

    /// The tokenizer of a model of SentencePiece.
    ///
    /// # Errors
    /// In words, for what is no such model, or one that is not done exactly.
    pub fn of_sentencepiece(data: &[u8]) -> Result<Self, String> {
        let (value, ids, pieces) = sentencepiece::read(data)?;
        let mut made = Self::of_value(&value, ids, false)?;
        made.pieces = Some(pieces);
        Ok(made)
    }

    /// The same of the newest form. ends_whole: whether the blanks at a text's end are one piece.
    pub(super) fn of_value(value: &Value, ids: HashMap<String, u32>, ends_whole: bool) -> Result<Self, String> {
        let model = &value["model"];
        let has_affix = ["end_of_word_suffix", "continuing_subword_prefix"]
            .iter()
            .any(|affix| model[affix].as_str().is_some_and(|affix| !affix.is_empty()));
        // The library puts suffixes behind letters, and loses them behind bytes: it gets letters that stand for bytes.
        let maps_bytes = has_affix && model["byte_level"] == true;
        let text = if maps_bytes {
            let mut other = value.clone();
            other["model"]["byte_level"] = Value::Bool(false);
            other.to_string()
        } else {
            value.to_string()
        };
        let inner = guarded(|| tokenizers::from_json(&text).map_err(|error| error.to_string()))?;
        let has_expressions = slow_splits::has_expressions(&value["pre_tokenizer"]);
        let cut =
            if has_expressions || has_affix { Some(guarded(|| Ok(inner.get_pre_tokenizer().clone()))?) } else { None };
        let (mut specials, mut specials_are_normalized) = (HashMap::new(), false);
        let added = inner.get_added_vocabulary();
        for (id, token) in added.get_added_tokens_decoder() {
            if token.special {
                specials_are_normalized |= token.normalized;
                specials.insert(id, token.content);
            }
        }
        vocabulary::check_added(value, |content| added.token_to_id(content))?;
        Ok(Self {
            inner,
            ends_whole,
            cut,
            spare: Mutex::new(Vec::new()),
            specials,
            specials_are_normalized,
            ids,
            splits_slowly: slow_splits::has_any(value),
            lengths: None,
            pieces: None,
            maps_bytes,
            first_lost: u32::MAX,
            suffix: model["end_of_word_suffix"].as_str().unwrap_or("").to_owned(),
        })
    }

    /// The id of a token, as the file spells it.
    #[must_use]
    pub fn id_of(&self, token: &str) -> Option<u32> {
        self.ids.get(token).copied()
    }

    /// What stands around one text, and around two.
    #[must_use]
    pub fn templates(&self) -> (&Template, &Template) {
        let both = self.inner.get_post_processor();
        (&both.single, &both.pair)
    }

    /// Whether special tokens in texts can become their ids.
    #[must_use]
    pub fn has_special_ids(&self) -> bool {
        self.pieces.is_none()
    }

    /// Makes ready for `spans`.
    ///
    /// # Errors
    /// In words, for a tokenizer that changes texts before it cuts them: its tokens do not lie side by side.
    pub fn with_lengths(mut self) -> Result<Self, String> {
        let is_plain = self.inner.get_normalizers().is_empty();
        let is_bytes = matches!(self.inner.get_model(), PipelineModel::BPE(bpe) if bpe.is_byte_level());
        if !is_plain || !is_bytes || self.pieces.is_some() {
            return Err("offsets are known of byte-level BPE without a normalizer only".to_owned());
        }
        let most = self.ids.values().max().map_or(0, |&id| id as usize + 1);
        let lengths = (0..most as u32).map(|id| match self.inner.get_added_vocabulary().simple_id_to_token(id) {
            Some(content) => content.len() as u32,
            None => self.inner.get_model().id_to_token(id).map_or(0, |token| token.chars().count() as u32),
        });
        self.lengths = Some(lengths.collect());
        Ok(self)
    }

    /// The first and last byte of each token of a text, one behind the other.
    ///
    /// # Errors
    /// In words, where tokens do not add up to the text: an added token took blanks beside it.
    pub fn spans(&self, text: &str, tokens: &[PipelineToken], out: &mut Vec<i32>) -> Result<(), String> {
        let lengths = self.lengths.as_deref().unwrap_or(&[]);
        let mut end = 0u64;
        for token in tokens {
            out.push(end as i32);
            end += u64::from(lengths.get(token.id() as usize).copied().unwrap_or(0));
            out.push(end as i32);
        }
        let fits = end == text.len() as u64 && end <= MOST_ID;
        fits.then_some(()).ok_or_else(|| format!("its tokens are {end} bytes, and the text is {}", text.len()))
    }

    /// Adds the ids of a text, without what stands around it.
    ///
    /// # Errors
    /// In words, for a text that cannot be tokenized, or not exactly.
    pub fn encode(&self, text: &str, special: Special, out: &mut Vec<PipelineToken>) -> Result<(), String> {
        if special == Special::Error
            && let Some(found) = self.special_in(text)?
        {
            return Err(format!("the text holds the special token {found:?}"));
        }
        if self.splits_slowly {
            slow_splits::check(text)?;
        }
        let options = EncodeOptions {
            add_special_tokens: false,
            encode_special_tokens: special != Special::AsToken,
            padding: Override::Off,
            truncation: Override::Off,
        };
        guarded(|| {
            let whole = |text: &str, out: &mut Vec<PipelineToken>| match &self.cut {
                _ if self.ends_whole => self.encode_whole_ends(text, &options, out),
                None => self.encode_plain(text, &options, out),
                Some(cut) => self.encode_cut(cut, text, &options, out),
            };
            let made = match &self.pieces {
                Some(pieces) => pieces.encode(text, out, whole),
                None => whole(text, out),
            };
            made.map_err(|error| error.to_string())
        })?;
        if self.first_lost < u32::MAX && out.iter().any(|token| token.id() >= self.first_lost) {
            return Err("the text holds a byte that the tokenizer has no token for".to_owned());
        }
        Ok(())
    }

    /// The same for encodings in which the blanks at the end of what stands between special tokens are one piece.
    fn encode_whole_ends(&self, text: &str, options: &EncodeOptions, out: &mut Vec<PipelineToken>) -> Encoded {
        let plain = EncodeOptions { encode_special_tokens: true, ..options.clone() };
        for segment in self.segments(text, false, options) {
            match segment {
                Segment::SpecialToken(id) => out.push(PipelineToken::from(id)),
                Segment::Text { text, .. } => {
                    let blanks = last_blanks(text);
                    self.encode_plain(&text[..blanks], &plain, out)?;
                    if blanks < text.len() {
                        let mut scratch = self.scratch();
                        self.inner.get_model().tokenize_pipeline(&text[blanks..], &mut scratch.model, out)?;
                        self.keep(scratch, text.len() - blanks, 0);
                    }
                }
            }
        }
        Ok(())
    }

    /// As the library does it, but for long texts: what it works with it keeps for ever.
    fn encode_plain(&self, text: &str, options: &EncodeOptions, out: &mut Vec<PipelineToken>) -> Encoded {
        if text.len() <= LONG {
            return self.inner.encode_into(text, options, out);
        }
        self.encode_cut(self.inner.get_pre_tokenizer(), text, options, out)
    }

    /// The same where a regular expression cuts: what the library does, with the expression compiled.
    fn encode_cut(
        &self,
        cut: &PipelinePreTokenizer,
        text: &str,
        options: &EncodeOptions,
        out: &mut Vec<PipelineToken>,
    ) -> Encoded {
        let (mut scratch, mut longest, size) = (self.scratch(), 0, text.len());
        for outer in self.segments(text, false, options) {
            let (text, offset) = match outer {
                Segment::SpecialToken(id) => {
                    out.push(PipelineToken::from(id));
                    continue;
                }
                Segment::Text { text, input_offset } => (text, input_offset),
            };
            let normal = normalize_all(self.inner.get_normalizers(), text, offset)?;
            if u32::try_from(normal.len()).is_err() {
                return Err("it is longer than 4 GB".into());
            }
            for segment in self.segments(&normal, true, options) {
                match segment {
                    Segment::SpecialToken(id) => out.push(PipelineToken::from(id)),
                    Segment::Text { text, .. } => {
                        scratch.spans.clear();
                        cut.pre_tokenize(text, &mut scratch.cut, &mut scratch.spans)?;
                        if size > LONG {
                            longest = scratch.spans.iter().map(|span| span.range().len()).fold(longest, usize::max);
                        }
                        let mapped = self.maps_bytes.then(|| with_bytes_as_letters(text, &mut scratch.spans));
                        let text = mapped.as_deref().unwrap_or(text);
                        self.encode_spans(text, &mut scratch, out)?;
                    }
                }
            }
        }
        self.keep(scratch, longest, size);
        Ok(())
    }

    /// Words one after another. One of a single letter is not the letter's token, which the library takes, but that with the suffix.
    fn encode_spans(&self, text: &str, scratch: &mut Scratch, out: &mut Vec<PipelineToken>) -> Encoded {
        let model = self.inner.get_model();
        if self.suffix.is_empty() {
            return model.tokenize_spans(text, &scratch.spans, &mut scratch.model, out);
        }
        for span in &scratch.spans {
            let word = &text[span.range()];
            let is_letter = word.chars().nth(1).is_none();
            match self.ids.get(&format!("{word}{}", self.suffix)).filter(|_| is_letter && !word.is_empty()) {
                Some(&id) => out.push(PipelineToken::from(id)),
                None if is_letter && !word.is_empty() && self.ids.contains_key(word) => {
                    return Err(format!("the tokenizer has {word:?}, and not with {:?} behind it", self.suffix).into());
                }
                None => model.tokenize_pipeline(word, &mut scratch.model, out)?,
            }
        }
        Ok(())
    }

    fn segments<'a>(
        &'a self,
        text: &'a str,
        is_normal: bool,
        options: &EncodeOptions,
    ) -> SpecialSegmentIterator<'a, 'a, AddedVocabulary> {
        SpecialSegmentIterator::new(text, self.inner.get_added_vocabulary(), is_normal, options.encode_special_tokens)
    }

    fn scratch(&self) -> Scratch {
        let spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner).pop();
        spare.unwrap_or_else(|| Scratch {
            model: self.inner.get_model().init_scratch(),
            cut: PreTokenizerScratch::default(),
            spans: Vec::new(),
        })
    }

    /// For later texts. word, text: bytes of the longest word of a long text, and of the text, that it was used for.
    fn keep(&self, mut scratch: Scratch, word: usize, text: usize) {
        if word > LONG {
            return;
        }
        if text > LONG {
            (scratch.cut, scratch.spans) = (PreTokenizerScratch::default(), Vec::new());
        }
        self.spare.lock().unwrap_or_else(PoisonError::into_inner).push(scratch);
    }

    /// The first special token that stands in a text.
    fn special_in(&self, text: &str) -> Result<Option<&str>, String> {
        if let Some(pieces) = &self.pieces {
            return Ok(pieces.control_in(text));
        }
        if self.specials.is_empty() {
            return Ok(None);
        }
        if let Some(found) = self.special_among(text, false) {
            return Ok(Some(found));
        }
        if !self.specials_are_normalized {
            return Ok(None);
        }
        let normal = normalize_all(self.inner.get_normalizers(), text, 0).map_err(|error| error.to_string())?;
        Ok(self.special_among(&normal, true))
    }

    fn special_among(&self, text: &str, is_normalized: bool) -> Option<&str> {
        let (added, mut at) = (self.inner.get_added_vocabulary(), 0);
        while let Some(((_, end), id)) = added.extract_next(text.as_bytes(), at, is_normalized, false) {
            if let Some(found) = self.specials.get(&id) {
                return Some(found);
            }
            at = end;
        }
        None
    }
}

/// The pieces of a text, each byte a letter that stands for it; spans are then of that.
fn with_bytes_as_letters(text: &str, spans: &mut [Span]) -> String {
    let mut made = String::with_capacity(text.len() + text.len() / 2);
    for span in spans {
        let start = made.len() as u32;
        made.extend(text.as_bytes()[span.range()].iter().map(|&byte| letter(byte)));
        *span = Span::new(start, made.len() as u32);
    }
    made
}

/// Where the blanks begin with which a text ends, but for line ends right behind a mark, which belong to that.
fn last_blanks(text: &str) -> usize {
    static MARK: LazyLock<Option<SysRegex>> = LazyLock::new(|| SysRegex::new(r"\A[^\s\p{L}\p{N}][\r\n]*").ok());
    let letter = text.trim_end().char_indices().next_back().map_or(0, |(at, _)| at);
    let kept = text.trim_end().len();
    let mark = MARK.as_ref().and_then(|mark| mark.find_iter(&text[letter..]).next());
    mark.map_or(kept, |(_, end)| letter + end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::tiktoken;

    #[test]
    fn room_for_long_texts_is_given_back() {
        let bytes: Vec<(Vec<u8>, u32)> = (0..=255).map(|byte| (vec![byte], u32::from(byte))).collect();
        let made = tiktoken::engine(&bytes, r"\S+|\s+", &[]).unwrap();
        let words = "word ".repeat(LONG / 4);
        for (text, kept) in [("short", 1), (words.as_str(), 1), (&"w".repeat(LONG + 1), 0), ("short", 1)] {
            let mut out = Vec::new();
            made.encode(text, Special::AsText, &mut out).unwrap();
            assert_eq!(out.len(), text.len());
            let spare = made.spare.lock().unwrap();
            assert_eq!(spare.len(), kept);
            assert!(spare.iter().all(|one| one.spans.capacity() <= LONG));
        }
    }
}
