//! Text: what becomes of columns of texts, whole columns at a time. A column is `texts::Texts`, its bytes and where each row ends.

pub mod texts;
