//! Patterns that cut texts by a regular expression with look-around, which gives up beyond a number of steps, without a word: texts that could bring it there are refused.

use serde_json::Value;
use tokenizers::utils::recognize;

/// Bytes of one stretch in which such a pattern takes no more steps than it may: it takes a few a letter.
const MOST_BYTES: usize = 200_000;

/// Whether a tokenizer has a pattern that tries and goes back.
pub(super) fn has_any(value: &Value) -> bool {
    any_pattern(value, &|pattern| recognize(pattern).is_none() && goes_back(pattern))
}

/// Whether a tokenizer has a pattern that is run as a regular expression.
pub(super) fn has_expressions(value: &Value) -> bool {
    any_pattern(value, &|pattern| recognize(pattern).is_none())
}

fn any_pattern(value: &Value, is_one: &dyn Fn(&str) -> bool) -> bool {
    match value {
        Value::Object(fields) => fields.iter().any(|(name, inner)| match (name.as_str(), inner) {
            ("vocab" | "merges" | "added_tokens" | "decoder", _) => false,
            ("Regex", Value::String(pattern)) => is_one(pattern),
            _ => any_pattern(inner, is_one),
        }),
        Value::Array(values) => values.iter().any(|inner| any_pattern(inner, is_one)),
        _ => false,
    }
}

/// Whether a pattern has what only an expression that tries and goes back can do.
fn goes_back(pattern: &str) -> bool {
    ["(?=", "(?!", "(?<", "(?>", "++", "*+", "?+", "}+", "\\1", "\\2", "\\k", "\\G", "\\K"]
        .iter()
        .any(|one| pattern.contains(one))
}

/// Whether each stretch of blanks, and of what is none, is short enough; in words, where one is not.
pub(super) fn check(text: &str) -> Result<(), String> {
    if text.len() <= MOST_BYTES {
        return Ok(());
    }
    let (mut start, mut was_blank) = (0, None);
    for (at, letter) in text.char_indices() {
        let is_blank = Some(letter.is_whitespace());
        if is_blank != was_blank {
            (start, was_blank) = (at, is_blank);
        }
        if at - start > MOST_BYTES {
            return Err(format!(
                "more than {MOST_BYTES} bytes from byte {start} on {}, which this tokenizer's regular expression cannot cut exactly",
                if is_blank == Some(true) { "are blanks" } else { "have no blank" },
            ));
        }
    }
    Ok(())
}
