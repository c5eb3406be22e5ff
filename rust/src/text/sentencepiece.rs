//! Models of SentencePiece: a protobuf of pieces with scores, and how texts are made normal before.
//!
//! `Normal` does what SentencePiece's own normalizer does (`normalizer.cc`), byte for byte. A piece of a BPE model is joined of two by its score, so that all ways to do so are merges, best score first.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};
use tokenizers::pipeline::PipelineToken;

use super::protobuf::{Field, fields};
use super::unigram::{Scored, Unigram};

const SPACE: &str = "\u{2581}";
const NORMAL: u64 = 1;
const UNKNOWN: u64 = 2;
const CONTROL: u64 = 3;
const USER_DEFINED: u64 = 4;
const UNUSED: u64 = 5;
const BYTE: u64 = 6;
const UNIGRAM: u64 = 1;
const BPE: u64 = 2;

struct Piece {
    text: String,
    score: f32,
    kind: u64,
}

/// How texts are made normal: by a map of letters, with or without blanks at the ends and in a row.
pub struct Normal {
    trie: Vec<u32>,
    texts: Vec<u8>,
    /// What stays as it is, the longest first.
    symbols: Vec<String>,
    begins_with_blank: bool,
    drops_blanks: bool,
}

/// What a model has beside the library's tokenizer of it.
pub struct Model {
    /// How texts are made normal.
    normal: Normal,
    /// Control pieces, which no text becomes.
    controls: Vec<String>,
    /// User-defined symbols, the longest first, and their ids.
    symbols: Vec<(String, u32)>,
    /// What tokenizes instead of the library.
    unigram: Option<Unigram>,
}

impl Model {
    /// The first control piece in a text.
    pub(super) fn control_in(&self, text: &str) -> Option<&str> {
        self.controls.iter().map(String::as_str).find(|control| text.contains(control))
    }

    /// Adds the ids of a text. between: tokenizes what stands between symbols, which no unigram model does.
    pub(super) fn encode(
        &self,
        text: &str,
        out: &mut Vec<PipelineToken>,
        mut between: impl FnMut(&str, &mut Vec<PipelineToken>) -> tokenizers::Result<()>,
    ) -> tokenizers::Result<()> {
        let normal = self.normal.of(text);
        if let Some(unigram) = &self.unigram {
            unigram.encode(&normal, out);
            return Ok(());
        }
        let (mut start, mut at) = (0, 0);
        while at < normal.len() && !self.symbols.is_empty() {
            let rest = &normal[at..];
            if let Some((symbol, id)) = self.symbols.iter().find(|one| rest.starts_with(one.0.as_str())) {
                between(&normal[start..at], out)?;
                out.push(PipelineToken::from(*id));
                at += symbol.len();
                start = at;
            } else {
                at += rest.chars().next().map_or(1, char::len_utf8);
            }
        }
        between(&normal[start..], out)
    }
}

/// What a model's file says: what the library reads, the ids of pieces, and the rest.
///
/// # Errors
/// In words, for what is no such model, or one that is not done exactly.
pub(super) fn read(data: &[u8]) -> Result<(Value, HashMap<String, u32>, Model), String> {
    let (mut pieces, mut kind, mut has_bytes, mut normal, mut is_suffix) = (Vec::new(), UNIGRAM, false, None, false);
    for field in fields(data) {
        match field.map_err(|()| "it is no model of SentencePiece: its protobuf is damaged".to_owned())? {
            (1, Field::Bytes(one)) => pieces.push(piece(one).ok_or("a piece of it is damaged")?),
            (2, Field::Bytes(trainer)) => {
                for field in fields(trainer) {
                    match field.map_err(|()| "its trainer_spec is damaged".to_owned())? {
                        (3, Field::Number(number)) => kind = number,
                        (24, Field::Number(number)) => is_suffix = number != 0,
                        (35, Field::Number(number)) => has_bytes = number != 0,
                        _ => {}
                    }
                }
            }
            (3, Field::Bytes(spec)) => normal = Some(Normal::read(spec)?),
            _ => {}
        }
    }
    let mut normal = normal.ok_or("it is no model of SentencePiece: it has no normalizer_spec")?;
    let refused = |kind: &str| format!("{kind} are not done natively");
    if is_suffix {
        return Err(refused("blanks behind words (treat_whitespace_as_suffix)"));
    }
    if pieces.iter().any(|piece| piece.kind == UNUSED) {
        return Err(refused("unused pieces"));
    }
    let mut texts = HashSet::new();
    if let Some(twice) = pieces.iter().find(|piece| !texts.insert(piece.text.as_str())) {
        return Err(format!("the piece {:?} stands there twice", twice.text));
    }
    let mut unknown = pieces.iter().enumerate().filter(|(_, piece)| piece.kind == UNKNOWN).map(|(id, _)| id);
    let (Some(unknown), None) = (unknown.next(), unknown.next()) else {
        return Err("it has no one unknown piece".to_owned());
    };
    let of = |kind| pieces.iter().enumerate().filter(move |(_, piece)| piece.kind == kind);
    let bytes: Vec<u32> = (0..=255u8)
        .filter_map(|byte| of(BYTE).find(|(_, piece)| piece.text == format!("<0x{byte:02X}>")).map(|(id, _)| id as u32))
        .collect();
    if has_bytes && bytes.len() < 256 {
        return Err("it has no piece for each byte, and byte_fallback".to_owned());
    }
    let mut symbols: Vec<(String, u32)> = of(USER_DEFINED).map(|(id, piece)| (piece.text.clone(), id as u32)).collect();
    symbols.sort_by_key(|one| std::cmp::Reverse(one.0.len()));
    normal.symbols = symbols.iter().map(|one| one.0.clone()).collect();
    let ids: HashMap<String, u32> =
        pieces.iter().enumerate().map(|(id, piece)| (piece.text.clone(), id as u32)).collect();
    let controls = of(CONTROL).map(|(_, piece)| piece.text.clone()).collect();
    let mut model = Model { normal, controls, symbols, unigram: None };
    let (library, cut) = match kind {
        UNIGRAM => {
            let is_text = |piece: &Piece| piece.kind == NORMAL || piece.kind == USER_DEFINED;
            let scored = pieces.iter().enumerate().filter(|(_, piece)| is_text(piece)).map(|(id, piece)| Scored {
                text: &piece.text,
                id: id as u32,
                score: piece.score,
                is_symbol: piece.kind == USER_DEFINED,
            });
            let scored: Vec<Scored<'_>> = scored.collect();
            model.unigram = Some(Unigram::new(&scored, unknown as u32, has_bytes.then_some(bytes))?);
            (json!({"type": "WordLevel", "vocab": {"": 0}, "unk_token": ""}), Value::Null)
        }
        BPE => (bpe(&pieces, unknown, has_bytes), cut(&pieces)),
        _ => return Err(refused("models of words or letters")),
    };
    let value = json!({
        "version": "2.0", "added_tokens": [], "normalizer": null, "post_processor": null, "decoder": null,
        "pre_tokenizer": cut, "model": library,
    });
    Ok((value, ids, model))
}

fn piece(data: &[u8]) -> Option<Piece> {
    let mut made = Piece { text: String::new(), score: 0.0, kind: NORMAL };
    for field in fields(data) {
        match field.ok()? {
            (1, Field::Bytes(text)) => std::str::from_utf8(text).ok()?.clone_into(&mut made.text),
            (2, Field::Four(bits)) => made.score = f32::from_bits(bits),
            (3, Field::Number(kind)) => made.kind = kind,
            _ => {}
        }
    }
    (!made.text.is_empty() && made.score.is_finite()).then_some(made)
}

fn bpe(pieces: &[Piece], unknown: usize, has_bytes: bool) -> Value {
    let score_of: HashMap<&str, f32> =
        pieces.iter().filter(|piece| piece.kind == NORMAL).map(|piece| (piece.text.as_str(), piece.score)).collect();
    let mut merges = Vec::new();
    for (id, piece) in pieces.iter().enumerate().filter(|(_, piece)| piece.kind == NORMAL) {
        for (at, _) in piece.text.char_indices().skip(1) {
            let (left, right) = piece.text.split_at(at);
            if score_of.contains_key(left) && score_of.contains_key(right) {
                merges.push((piece.score, id, at, [left, right]));
            }
        }
    }
    merges.sort_by(|one, other| other.0.total_cmp(&one.0).then((one.1, one.2).cmp(&(other.1, other.2))));
    let merges: Vec<[&str; 2]> = merges.into_iter().map(|one| one.3).collect();
    let vocab: HashMap<&str, usize> = pieces.iter().enumerate().map(|(id, piece)| (piece.text.as_str(), id)).collect();
    json!({
        "type": "BPE", "vocab": vocab, "merges": merges, "unk_token": pieces[unknown].text, "fuse_unk": true,
        "byte_fallback": has_bytes,
        "byte_level": false, "ignore_merges": false,
    })
}

/// Where texts may be cut without changing a token: before a word's blanks, if no piece goes on over that.
fn cut(pieces: &[Piece]) -> Value {
    let normal = || pieces.iter().filter(|piece| piece.kind == NORMAL);
    let goes_on = normal().any(|piece| piece.text.trim_start_matches(SPACE).contains(SPACE));
    if goes_on || !normal().any(|piece| piece.text == SPACE) {
        return Value::Null;
    }
    let pattern = format!("{SPACE}*[^{SPACE}]+|{SPACE}+");
    json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false})
}

impl Normal {
    fn read(spec: &[u8]) -> Result<Self, String> {
        let mut made = Self {
            trie: Vec::new(),
            texts: Vec::new(),
            symbols: Vec::new(),
            begins_with_blank: true,
            drops_blanks: true,
        };
        let mut escapes = true;
        for field in fields(spec) {
            match field.map_err(|()| "its normalizer_spec is damaged".to_owned())? {
                (2, Field::Bytes([])) => {}
                (2, Field::Bytes(map)) => made.read_map(map).ok_or("its map of letters is damaged")?,
                (3, Field::Number(number)) => made.begins_with_blank = number != 0,
                (4, Field::Number(number)) => made.drops_blanks = number != 0,
                (5, Field::Number(number)) => escapes = number != 0,
                _ => {}
            }
        }
        if escapes { Ok(made) } else { Err("blanks that stay blanks are not done natively".to_owned()) }
    }

    fn read_map(&mut self, map: &[u8]) -> Option<()> {
        let (size, rest) = map.split_first_chunk::<4>()?;
        let (trie, texts) = rest.split_at_checked(u32::from_le_bytes(*size) as usize)?;
        let (units, left) = trie.as_chunks::<4>();
        self.trie = units.iter().map(|unit| u32::from_le_bytes(*unit)).collect();
        texts.clone_into(&mut self.texts);
        (left.is_empty() && !units.is_empty()).then_some(())
    }

    /// What stands for the beginning of a text, and how many bytes of it that is.
    fn prefix<'a>(&'a self, text: &'a str) -> (&'a str, usize) {
        if let Some(symbol) = self.symbols.iter().find(|symbol| text.starts_with(symbol.as_str())) {
            return (&text[..symbol.len()], symbol.len());
        }
        if let Some((length, at)) = self.longest(text.as_bytes()) {
            let found = self.texts.get(at..).unwrap_or(&[]);
            let end = found.iter().position(|&byte| byte == 0).unwrap_or(found.len());
            if let Ok(found) = std::str::from_utf8(&found[..end])
                && text.is_char_boundary(length)
            {
                return (found, length);
            }
        }
        let length = text.chars().next().map_or(0, char::len_utf8);
        (&text[..length], length)
    }

    /// The longest key of the trie (of darts-clone) that a text begins with: its length and value.
    fn longest(&self, text: &[u8]) -> Option<(usize, usize)> {
        let offset = |unit: u32| (unit >> 10) << ((unit & (1 << 9)) >> 6);
        let mut at = offset(*self.trie.first()?);
        let mut found = None;
        for (number, &byte) in text.iter().enumerate() {
            at ^= u32::from(byte);
            let Some(&unit) = self.trie.get(at as usize) else { break };
            if unit & (1 << 31 | 0xff) != u32::from(byte) {
                break;
            }
            at ^= offset(unit);
            if unit >> 8 & 1 == 1 {
                let Some(&leaf) = self.trie.get(at as usize) else { break };
                found = Some((number + 1, (leaf & 0x7fff_ffff) as usize));
            }
        }
        found
    }

    /// A text as its model takes it.
    #[must_use]
    pub fn of(&self, text: &str) -> String {
        let mut rest = text;
        while self.drops_blanks && !rest.is_empty() {
            let (normal, length) = self.prefix(rest);
            if normal != " " {
                break;
            }
            rest = &rest[length..];
        }
        let mut made = String::new();
        if rest.is_empty() {
            return made;
        }
        made.reserve(rest.len() + rest.len() / 2);
        if self.begins_with_blank {
            made.push_str(SPACE);
        }
        let mut is_behind_blank = self.drops_blanks;
        while !rest.is_empty() {
            let (normal, length) = self.prefix(rest);
            let kept = if is_behind_blank { normal.trim_start_matches(' ') } else { normal };
            if !kept.is_empty() {
                for (number, part) in kept.split(' ').enumerate() {
                    made.push_str(if number == 0 { "" } else { SPACE });
                    made.push_str(part);
                }
                is_behind_blank = kept.ends_with(' ');
            }
            is_behind_blank &= self.drops_blanks;
            rest = &rest[length..];
        }
        if self.drops_blanks {
            made.truncate(made.trim_end_matches(SPACE).len());
        }
        made
    }
}
