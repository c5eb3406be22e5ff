//! The three kinds of lists that a feature holds.

use crate::core::dtype::Dtype;

/// What a feature holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Kind {
    /// Nothing: the feature is missing, or present without a list.
    #[default]
    None,
    /// A `BytesList`.
    Bytes,
    /// A `FloatList`.
    Float,
    /// An `Int64List`.
    Int64,
}

impl Kind {
    /// Its name in messages and in what `infer` returns.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "nothing",
            Self::Bytes => "bytes",
            Self::Float => "float32",
            Self::Int64 => "int64",
        }
    }

    /// Whether values of this kind can become a column's type.
    #[inline]
    #[must_use]
    pub const fn fits(self, dtype: Dtype) -> bool {
        match self {
            Self::None | Self::Int64 => true,
            Self::Float => matches!(dtype, Dtype::Float16 | Dtype::Bfloat16 | Dtype::Float32 | Dtype::Float64),
            Self::Bytes => false,
        }
    }

    /// The field number of its list in `Feature`.
    pub(super) const fn field(self) -> u64 {
        match self {
            Self::None => 0,
            Self::Bytes => 1,
            Self::Float => 2,
            Self::Int64 => 3,
        }
    }
}
