//! The numbers that features become, with conversions that lose nothing but a float's last digits.

use half::{bf16, f16};

use super::fault::Fault;

/// A number that a column can hold.
pub trait Element: Copy {
    /// Bytes of one value.
    const SIZE: usize;
    /// Whether values of a `FloatList` can become it.
    const FLOAT: bool;
    /// Whether it is what a `FloatList` holds.
    const IS_F32: bool = false;

    /// From a `FloatList`.
    ///
    /// # Errors
    /// If a finite value would become infinite.
    fn from_float(value: f32) -> Result<Self, Fault>;

    /// From an `Int64List`.
    ///
    /// # Errors
    /// If the value cannot be held exactly.
    fn from_integer(value: i64) -> Result<Self, Fault>;

    /// Stores it in the machine's byte order; `out` has SIZE bytes.
    fn store(self, out: &mut [u8]);
}

macro_rules! integers {
    ($($type:ty),*) => {$(
        impl Element for $type {
            const SIZE: usize = size_of::<Self>();
            const FLOAT: bool = false;

            #[inline(always)]
            fn from_float(value: f32) -> Result<Self, Fault> {
                Err(Fault::Float { value })
            }

            #[inline(always)]
            fn from_integer(value: i64) -> Result<Self, Fault> {
                Self::try_from(value).map_err(|_| Fault::Integer { value })
            }

            #[inline(always)]
            fn store(self, out: &mut [u8]) {
                out.copy_from_slice(&self.to_ne_bytes());
            }
        }
    )*};
}

integers!(i8, i16, i32, i64, u8, u16, u32, u64);

macro_rules! floats {
    ($($type:ty, $exact:expr, $from:expr, $is_f32:expr;)*) => {$(
        impl Element for $type {
            const SIZE: usize = size_of::<Self>();
            const FLOAT: bool = true;
            const IS_F32: bool = $is_f32;

            #[inline(always)]
            fn from_float(value: f32) -> Result<Self, Fault> {
                let converted: Self = $from(value);
                if converted.is_infinite() && value.is_finite() {
                    return Err(Fault::Float { value });
                }
                Ok(converted)
            }

            #[inline(always)]
            fn from_integer(value: i64) -> Result<Self, Fault> {
                // Below this bound every integer is a value of the type.
                if value.unsigned_abs() > $exact {
                    return Err(Fault::Integer { value });
                }
                Ok($from(value as f32))
            }

            #[inline(always)]
            fn store(self, out: &mut [u8]) {
                out.copy_from_slice(&self.to_ne_bytes());
            }
        }
    )*};
}

floats! {
    f16, 1 << 11, f16::from_f32, false;
    bf16, 1 << 8, bf16::from_f32, false;
    f32, 1 << 24, f32::from, true;
}

impl Element for f64 {
    const SIZE: usize = 8;
    const FLOAT: bool = true;

    #[inline(always)]
    fn from_float(value: f32) -> Result<Self, Fault> {
        Ok(Self::from(value))
    }

    #[inline(always)]
    fn from_integer(value: i64) -> Result<Self, Fault> {
        if value.unsigned_abs() > 1 << 53 { Err(Fault::Integer { value }) } else { Ok(value as Self) }
    }

    #[inline(always)]
    fn store(self, out: &mut [u8]) {
        out.copy_from_slice(&self.to_ne_bytes());
    }
}

impl Element for bool {
    const SIZE: usize = 1;
    const FLOAT: bool = false;

    fn from_float(value: f32) -> Result<Self, Fault> {
        Err(Fault::Float { value })
    }

    #[inline(always)]
    fn from_integer(value: i64) -> Result<Self, Fault> {
        match value {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Fault::Integer { value }),
        }
    }

    #[inline(always)]
    fn store(self, out: &mut [u8]) {
        out[0] = u8::from(self);
    }
}
