//! Sums of numbers and of their squares, exact: they are whole numbers at each power of two, so that neither order nor threads matter.

/// Exponents of float64.
const EXPONENTS: usize = 2048;

/// Counts, bounds and exact sums of some numbers.
pub struct Moments {
    /// Numbers that are finite.
    pub count: u64,
    /// NaN.
    pub missing: u64,
    /// Infinite ones.
    pub infinite: u64,
    /// The least finite number.
    pub least: f64,
    /// The greatest finite number.
    pub greatest: f64,
    sums: Vec<i128>,
    squares: Vec<[u128; 2]>,
}

impl Default for Moments {
    fn default() -> Self {
        Self {
            count: 0,
            missing: 0,
            infinite: 0,
            least: f64::INFINITY,
            greatest: f64::NEG_INFINITY,
            sums: vec![0; EXPONENTS],
            squares: vec![[0; 2]; EXPONENTS],
        }
    }
}

impl Moments {
    /// Adds numbers.
    pub fn add(&mut self, values: &[f64]) {
        for &value in values {
            let bits = value.to_bits();
            let exponent = (bits >> 52) as usize & (EXPONENTS - 1);
            if exponent == EXPONENTS - 1 {
                *(if value.is_nan() { &mut self.missing } else { &mut self.infinite }) += 1;
                continue;
            }
            self.count += 1;
            self.least = self.least.min(value);
            self.greatest = self.greatest.max(value);
            let mantissa = (bits & ((1 << 52) - 1)) | (u64::from(exponent > 0) << 52);
            let signed = if bits >> 63 == 0 { mantissa.cast_signed() } else { -mantissa.cast_signed() };
            self.sums[exponent] += i128::from(signed);
            let square = u128::from(mantissa) * u128::from(mantissa);
            let [low, high] = &mut self.squares[exponent];
            *low += square & u128::from(u64::MAX);
            *high += square >> 64;
        }
    }

    /// The sums that are not 0: an exponent, the sum of numbers in units of 2^(exponent - 1075), and two words of that of squares, low and high, in units of the square of that.
    pub fn sums(&self) -> impl Iterator<Item = (usize, i128, [u128; 2])> {
        let all = self.sums.iter().zip(&self.squares).enumerate();
        all.map(|(exponent, (&sum, &squares))| (exponent.max(1), sum, squares))
            .filter(|(_, _, squares)| *squares != [0, 0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_exact() {
        let mut moments = Moments::default();
        moments.add(&[1e300, 1.0, -1e300, 5e-324, f64::NAN, f64::INFINITY]);
        assert_eq!((moments.count, moments.missing, moments.infinite), (4, 1, 1));
        let sums: Vec<(usize, i128)> = moments.sums().map(|(exponent, sum, _)| (exponent, sum)).collect();
        assert_eq!(sums, [(1, 1), (1023, 1 << 52), (2019, 0)]);
    }
}
