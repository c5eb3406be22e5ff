//! Which instructions the processor has: asked once at run time. Each kernel chooses among its own; all give the same bits.

/// Proof that this processor has AVX2, FMA and F16C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    has_wide_shuffles: bool,
}

impl Token {
    /// Whether it has the shuffles of AVX-512 VBMI too.
    #[must_use]
    pub const fn has_wide_shuffles(self) -> bool {
        self.has_wide_shuffles
    }

    /// The proof of what all have.
    #[cfg(test)]
    pub const fn without_wide_shuffles(self) -> Self {
        Self { has_wide_shuffles: false }
    }

    /// The proof, where there is one.
    #[must_use]
    pub fn detect() -> Option<Self> {
        #[cfg(target_arch = "x86_64")]
        {
            use std::is_x86_feature_detected as has;
            let has_wide_shuffles = has!("avx512f") && has!("avx512bw") && has!("avx512vbmi");
            if has!("avx2") && has!("fma") && has!("f16c") {
                return Some(Self { has_wide_shuffles });
            }
        }
        None
    }
}

/// A set of instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Plain code.
    Scalar,
    /// AVX2, FMA and F16C.
    #[cfg(target_arch = "x86_64")]
    Avx2(Token),
}

impl Default for Level {
    fn default() -> Self {
        Self::best()
    }
}

impl Level {
    /// The fastest that this processor has.
    #[must_use]
    pub fn best() -> Self {
        #[cfg(target_arch = "x86_64")]
        if let Some(token) = Token::detect() {
            return Self::Avx2(token);
        }
        Self::Scalar
    }
}
