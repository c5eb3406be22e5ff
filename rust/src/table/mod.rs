//! Tables: chains of steps on columns of numbers and text, and the statistics that fit them.
//!
//! `program` runs chains, chunk by chunk of rows, into arrays; `steps` says what a step does to a `lane` (one column of a chunk). A single row is a chunk of one row, so that
//! serving gives the bits that training had. `moments` and `radix` sum and rank exactly: what they find does not depend on the order of the rows, and adds up.

pub mod categories;
pub mod codes;
pub mod dates;
pub mod failure;
pub mod lane;
pub mod moments;
pub mod program;
pub mod radix;
pub mod steps;
