//! Records: where they begin and end in a file, and what each format's bytes become.

pub mod example;
pub mod fields;
pub mod framing;
pub mod json;
pub mod line_text;
pub mod parquet;
pub mod tar;
