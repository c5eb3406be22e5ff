//! The language of a text, by whatlang: its code in ISO 639-3, and how sure that is.

/// The code and confidence of a text's language; "" and 0 of a text without letters.
#[must_use]
pub fn language(text: &str) -> (&'static str, f32) {
    whatlang::detect(text).map_or(("", 0.0), |found| (found.lang().code(), found.confidence() as f32))
}

/// The codes that there are, in the order of the alphabet.
#[must_use]
pub fn codes() -> Vec<&'static str> {
    let mut codes: Vec<&str> = whatlang::Lang::all().iter().map(|one| one.code()).collect();
    codes.sort_unstable();
    codes
}
