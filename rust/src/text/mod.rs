//! Text: what becomes of columns of texts, whole columns at a time. A column is `texts::Texts`, its bytes and where each row ends.
//!
//! `tokenize` makes ids of columns with an `engine`, the one file that knows the library behind it; `tiktoken` and `sentencepiece` make engines of those models.

pub mod engine;
mod protobuf;
pub mod sentencepiece;
mod slow_splits;
pub mod masking;
pub mod texts;
pub mod tiktoken;
pub mod tokenize;
mod unigram;
pub mod by_rows;
pub mod characters;
pub mod clusters;
pub mod language;
pub mod minhash;
mod minima;
pub mod normalise;
pub mod quality;
pub mod redact;
pub mod simplify;
pub mod texts;
pub mod words;
