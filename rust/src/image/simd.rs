//! Which instructions the processor has: asked once at run time. Each kernel chooses among its own; all give the same bits.

/// Proof that this processor has AVX2 and F16C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token(());

impl Token {
    /// The proof, where there is one.
    #[must_use]
    pub fn detect() -> Option<Self> {
        #[cfg(target_arch = "x86_64")]
        if std::is_x86_feature_detected!("avx2") && std::is_x86_feature_detected!("f16c") {
            return Some(Self(()));
        }
        None
    }
}

/// A set of instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Plain code.
    Scalar,
    /// AVX2 and F16C.
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
