//! Text: what becomes of columns of texts, whole columns at a time. A column is `texts::Texts`, its bytes and where each row ends.
//!
//! `tokenize` makes ids of columns with an `engine`, the one file that knows the library behind it (`vocabulary` checks what it is given, `guarded` what it panics at); `tiktoken` and `sentencepiece` read those models. `masking` takes out what is to be guessed.
//! `quality` judges texts by their `words`, `minhash` and `clusters` find those that are alike; `normalise`, `redact` and `language` are an op each, run `by_rows`.

pub mod by_rows;
pub mod characters;
pub mod clusters;
pub mod engine;
mod guarded;
pub mod language;
pub mod masking;
pub mod minhash;
mod minima;
pub mod normalise;
mod protobuf;
pub mod quality;
pub mod redact;
mod sentencepiece;
pub mod simplify;
mod slow_splits;
pub mod texts;
pub mod tiktoken;
pub mod tokenize;
mod unigram;
mod vocabulary;
pub mod words;
