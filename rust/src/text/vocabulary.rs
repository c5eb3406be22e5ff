//! Tokens and their ids, as a `tokenizer.json` has them: what is wrong with them, and what the library wants beside.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

/// Ids are int32; and a vocabulary is a table, so that one with few tokens of large ids is refused.
pub const MOST_ID: u64 = i32::MAX as u64;
/// Ids that no token has, beside those of a tenth of the vocabulary.
const UNUSED_IDS: u64 = 1 << 20;

/// The ids of all tokens.
///
/// # Errors
/// In words, what is wrong with one: the library would take memory for all ids up to the largest.
pub fn check_ids(value: &Value) -> Result<HashMap<String, u32>, String> {
    let mut ids = HashMap::new();
    match &value["model"]["vocab"] {
        Value::Object(entries) => {
            entries.iter().try_for_each(|(token, id)| add(&mut ids, "token", token, id.as_u64()))?;
        }
        Value::Array(entries) => {
            for (id, entry) in entries.iter().enumerate() {
                add(&mut ids, "token", entry[0].as_str().unwrap_or(""), Some(id as u64))?;
            }
        }
        _ => return Err("its model has no vocabulary".to_owned()),
    }
    let distinct: HashSet<u32> = ids.values().copied().collect();
    if distinct.len() != ids.len() {
        return Err("two tokens of its vocabulary have one id, or one token stands there twice".to_owned());
    }
    for one in value["added_tokens"].as_array().into_iter().flatten() {
        add(&mut ids, "added token", one["content"].as_str().unwrap_or(""), one["id"].as_u64())?;
    }
    let most = ids.values().max().copied().unwrap_or(0);
    if u64::from(most) > ids.len() as u64 + ids.len() as u64 / 10 + UNUSED_IDS {
        return Err(format!("its {} tokens have ids up to {most}: most ids have none", ids.len()));
    }
    Ok(ids)
}

/// Adds one; in words, where its id is none.
fn add(ids: &mut HashMap<String, u32>, what: &str, token: &str, id: Option<u64>) -> Result<(), String> {
    let id =
        id.filter(|&id| id <= MOST_ID).ok_or_else(|| format!("the {what} {token:?} has no id from 0 to {MOST_ID}"))?;
    ids.insert(token.to_owned(), id as u32);
    Ok(())
}

/// Looks whether each added token keeps the id that the file gives it; `id_of` says which it gets.
///
/// # Errors
/// In words, for one that would get another.
pub fn check_added(value: &Value, id_of: impl Fn(&str) -> Option<u32>) -> Result<(), String> {
    for one in value["added_tokens"].as_array().into_iter().flatten() {
        let (content, id) = (one["content"].as_str().unwrap_or(""), one["id"].as_u64());
        let is_normalized = one["normalized"].as_bool() == Some(true);
        let found = id_of(content).map(u64::from);
        if !content.is_empty() && found != id && !(is_normalized && found.is_none()) {
            return Err(format!(
                "the added token {content:?} has id {}, and would get {}; give it the id behind those that there are",
                id.unwrap_or(0),
                found.map_or_else(|| "none".to_owned(), |id| id.to_string()),
            ));
        }
    }
    Ok(())
}

/// Gives each byte that a byte-level vocabulary lacks an id behind all others, the first of which this is: the library wants all bytes, and others drop such bytes from texts.
pub fn with_lost_bytes(value: &mut Value, ids: &HashMap<String, u32>) -> u32 {
    let first = ids.values().max().map_or(0, |&most| most + 1);
    let model = &mut value["model"];
    if model["byte_level"] != true || !model["unk_token"].is_null() {
        return u32::MAX;
    }
    let Some(vocab) = model["vocab"].as_object_mut() else { return u32::MAX };
    let mut next = first;
    for letter in (0..=255).map(|byte| letter(byte).to_string()) {
        if !vocab.contains_key(&letter) {
            vocab.insert(letter, Value::from(next));
            next += 1;
        }
    }
    if next > first { first } else { u32::MAX }
}

/// The letter that stands for a byte in byte-level vocabularies.
pub fn letter(byte: u8) -> char {
    match byte {
        b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF => char::from(byte),
        0..=b' ' => char::from_u32(256 + u32::from(byte)).unwrap_or_default(),
        0x7F..=0xA0 => char::from_u32(256 + 33 + u32::from(byte) - 0x7F).unwrap_or_default(),
        0xAD => '\u{143}',
    }
}
