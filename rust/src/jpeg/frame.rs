//! What segments say: a frame with its components, scans, tables.

use super::huffman::HuffmanSpec;

/// How the components of an image are colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// One component: luma.
    Grey,
    /// Three components: Y, Cb, Cr.
    YCbCr,
    /// Three components: red, green, blue.
    Rgb,
    /// Anything else; not decoded here.
    Other,
}

/// One component of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Component {
    /// Identifier that scans use.
    pub id: u8,
    /// Blocks per MCU, horizontally: 1..=4.
    pub horizontal: u8,
    /// Blocks per MCU, vertically: 1..=4.
    pub vertical: u8,
    /// Quantisation table: 0..=3.
    pub quantisation: u8,
}

/// What one scan holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scan {
    /// First byte of entropy-coded data.
    pub start: usize,
    /// Number of components in the scan.
    pub len: usize,
    /// Per scan component: (index into `Header::components`, DC table, AC table).
    pub components: [(u8, u8, u8); 4],
}

/// Tables that segments between scans may replace.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    /// Quantisation steps in natural order.
    pub quantisation: [Option<Box<[u16; 64]>>; 4],
    /// Huffman tables for DC differences.
    pub dc: [Option<Box<HuffmanSpec>>; 4],
    /// Huffman tables for AC coefficients.
    pub ac: [Option<Box<HuffmanSpec>>; 4],
    /// MCUs between restart markers; 0 means none.
    pub restart_interval: u32,
}

/// What a frame segment says; its fields are [`super::Header`]'s.
#[derive(Default)]
pub(super) struct Frame {
    pub marker: u8,
    pub precision: u8,
    pub width: u32,
    pub height: u32,
    pub count: usize,
    pub components: [Component; 4],
}
