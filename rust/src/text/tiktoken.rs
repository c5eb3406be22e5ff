//! Encodings of tiktoken: ranks of tokens, a pattern that cuts texts into pieces, and special tokens.
//!
//! In each piece the pair whose join has the lowest rank is joined, until none is left. The library that encodes wants a list of such pairs by rank: all ways in which a token is made of two.

use std::collections::HashMap;

use serde_json::{Value, json};
use tokenizers::utils::{SysRegex, recognize};

use super::engine::Engine;
use super::vocabulary::letter;

/// GPT-2's pattern as tiktoken writes it, and as the library knows it, which cuts every text alike.
const GPT2: [&str; 2] = [
    r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s",
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
];
/// The same of `cl100k_base`; these differ in the blanks at a text's end, which are one piece in tiktoken's.
const CL100K: [&str; 2] = [
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
];

/// Reads a `.tiktoken` file: a line a token, its bytes in base64 and its rank.
///
/// # Errors
/// In words, with the line.
pub fn read_ranks(data: &[u8]) -> Result<Vec<(Vec<u8>, u32)>, String> {
    let mut ranks = Vec::new();
    for (number, line) in data.split(|&byte| byte == b'\n').enumerate() {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            continue;
        }
        let mut parts = line.splitn(2, |&byte| byte == b' ');
        let token = parts.next().and_then(|token| if token == b"=" { Some(Vec::new()) } else { from_base64(token) });
        let rank = parts.next().and_then(|rank| std::str::from_utf8(rank).ok()?.parse().ok());
        match (token, rank) {
            (Some(token), Some(_)) if token.is_empty() => {} // one of no bytes, which Whisper's file has, is in no text
            (Some(token), Some(rank)) => ranks.push((token, rank)),
            _ => return Err(format!("line {} is not a token in base64 and its rank", number + 1)),
        }
    }
    Ok(ranks)
}

/// The tokenizer of an encoding.
///
/// # Errors
/// In words, where parts do not fit together.
pub fn engine(ranks: &[(Vec<u8>, u32)], pattern: &str, specials: &[(String, u32)]) -> Result<Engine, String> {
    let mut ids: HashMap<String, u32> = HashMap::with_capacity(ranks.len() + specials.len());
    let rank_of: HashMap<&[u8], u32> = ranks.iter().map(|(token, rank)| (token.as_slice(), *rank)).collect();
    let mut used: Vec<u32> = ranks.iter().map(|one| one.1).chain(specials.iter().map(|one| one.1)).collect();
    used.sort_unstable();
    if let Some(pair) = used.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(format!("two tokens have the id {}", pair[0]));
    }
    if rank_of.len() != ranks.len() {
        return Err("a token stands there twice".to_owned());
    }
    if let Some(byte) = (0..=255u8).find(|byte| !rank_of.contains_key([*byte].as_slice())) {
        return Err(format!("it has no token for the byte {byte}"));
    }
    let most = used.last().copied().unwrap_or(0);
    if most > i32::MAX as u32 || u64::from(most) > 2 * used.len() as u64 + (1 << 20) {
        return Err(format!("its {} tokens have ids up to {most}", used.len()));
    }
    ids.extend(ranks.iter().map(|(token, rank)| (printed(token), *rank)));
    for (content, id) in specials {
        if content.is_empty() || ids.insert(content.clone(), *id).is_some() {
            return Err(format!("the special token {content:?} is a token of text, too"));
        }
    }
    let (pattern, ends_whole) = match pattern {
        known if known == GPT2[0] => (GPT2[1], false),
        known if known == CL100K[0] => (CL100K[1], true),
        other => (other, false),
    };
    if recognize(pattern).is_none()
        && let Err(error) = SysRegex::new(pattern)
    {
        return Err(format!("its pattern {pattern:?} is no regular expression: {error}"));
    }
    let added: Vec<Value> = specials
        .iter()
        .map(|(content, id)| {
            json!({"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true})
        })
        .collect();
    let value = json!({
        "version": "2.0",
        "added_tokens": added,
        "normalizer": null,
        "pre_tokenizer": {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false},
        "post_processor": null,
        "decoder": null,
        "model": {"type": "BPE", "vocab": ids, "merges": merges(ranks, &rank_of), "byte_level": true, "ignore_merges": true},
    });
    let ids = ids.into_iter().collect();
    Engine::of_value(&value, ids, ends_whole)
}

/// All ways in which a token is made of two, by its rank.
fn merges(ranks: &[(Vec<u8>, u32)], rank_of: &HashMap<&[u8], u32>) -> Vec<[String; 2]> {
    let mut found = Vec::new();
    for (token, rank) in ranks {
        for at in 1..token.len() {
            let (left, right) = token.split_at(at);
            if let (Some(&one), Some(&other)) = (rank_of.get(left), rank_of.get(right)) {
                found.push((*rank, one, other, [printed(left), printed(right)]));
            }
        }
    }
    found.sort_unstable_by_key(|one| (one.0, one.1, one.2));
    found.into_iter().map(|one| one.3).collect()
}

/// Bytes as byte-level vocabularies spell them: each is one printable letter.
fn printed(token: &[u8]) -> String {
    token.iter().map(|&byte| letter(byte)).collect()
}

fn from_base64(text: &[u8]) -> Option<Vec<u8>> {
    let (mut made, mut bits, mut held) = (Vec::with_capacity(text.len() / 4 * 3), 0u32, 0);
    let data = text.strip_suffix(b"==").or_else(|| text.strip_suffix(b"=")).unwrap_or(text);
    for &byte in data {
        let six = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        (bits, held) = (bits << 6 | u32::from(six), held + 6);
        if held >= 8 {
            held -= 8;
            made.push((bits >> held) as u8);
        }
    }
    text.len().is_multiple_of(4).then_some(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_tokens_and_ranks() {
        assert_eq!(read_ranks(b"IQ== 0\nIiM= 1\n= 2\n 3\n\n").unwrap(), [(b"!".to_vec(), 0), (b"\"#".to_vec(), 1)]);
        for bad in [&b"IQ=="[..], b"I 0", b"IQ== x", b"IQ== -1", b"I?== 4", b"IQ== 4294967296"] {
            assert!(read_ranks(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn every_byte_is_one_letter_of_its_own() {
        let all: Vec<u8> = (0..=255).collect();
        let letters: std::collections::BTreeSet<char> = printed(&all).chars().collect();
        assert_eq!(letters.len(), 256);
        assert_eq!(printed(b" a\n\xad\x7f\xa0"), "\u{120}a\u{10a}\u{143}\u{121}\u{142}");
    }
}
