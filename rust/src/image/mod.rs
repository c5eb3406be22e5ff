//! Images: decoded, cropped, resized, flipped, normalised and stored in one pass over each.

pub mod affine;
pub mod batch;
pub mod canvas;
pub mod chain;
pub mod contents;
pub mod decode;
pub mod emit;
mod emit_avx2;
pub mod exif;
pub mod fault;
pub mod filter;
mod filter_short;
pub mod header;
pub mod indices;
pub mod limits;
pub mod mode;
pub mod numbers;
pub mod one_image;
pub mod ops;
mod passes;
pub mod pixels;
pub mod planar;
mod plane_avx2;
mod plane_wide_avx2;
pub mod program;
pub mod resample;
mod resample_avx2;
pub mod samples;
pub mod simd;
mod sum;
#[cfg(test)]
mod tests;
mod turn;
pub mod vectorised;
pub mod warp;
mod whole;
pub mod wide;
