//! Ranks of numbers, exact: counts by the leading bits of a pattern that sorts as the numbers do, 16 more in each pass.

/// Bits of a digit.
pub const DIGIT: u32 = 16;

/// A bit pattern that sorts as numbers do; 0.0 and -0.0 are one.
#[must_use]
pub fn pattern(value: f64) -> u64 {
    let bits = (value + 0.0).to_bits();
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}

/// The number of a pattern.
#[must_use]
pub const fn value(pattern: u64) -> f64 {
    f64::from_bits(if pattern >> 63 == 1 { pattern ^ (1 << 63) } else { !pattern })
}

/// Counts numbers whose patterns begin with one of the prefixes of `known` bits, by the digit behind; `counts` has 2¹⁶ places a prefix. NaN is left out.
pub fn count(values: &[f64], known: u32, prefixes: &[u64], counts: &mut [i64]) {
    for &value in values {
        if value.is_nan() {
            continue;
        }
        let pattern = pattern(value);
        if let Some(place) = place(pattern, known, prefixes) {
            let digit = (pattern >> (64 - known - DIGIT)) as usize & 0xFFFF;
            counts[place << DIGIT | digit] += 1;
        }
    }
}

/// The numbers whose patterns begin with one of the prefixes of `known` bits.
#[must_use]
pub fn collect(values: &[f64], known: u32, prefixes: &[u64]) -> Vec<f64> {
    values
        .iter()
        .copied()
        .filter(|value| !value.is_nan() && place(pattern(*value), known, prefixes).is_some())
        .collect()
}

fn place(pattern: u64, known: u32, prefixes: &[u64]) -> Option<usize> {
    if known == 0 {
        return Some(0);
    }
    prefixes.binary_search(&(pattern >> (64 - known))).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_sort_as_numbers() {
        let numbers = [f64::NEG_INFINITY, -1.5, -5e-324, 0.0, 5e-324, 2.0, f64::INFINITY];
        assert!(numbers.map(pattern).is_sorted());
        assert_eq!(numbers.map(pattern).map(value), numbers);
        assert_eq!(pattern(-0.0), pattern(0.0));
    }

    #[test]
    fn counts_are_of_digits_behind_prefixes() {
        let mut counts = vec![0; 1 << DIGIT];
        let values = [1.0, 1.0, 2.0, f64::NAN];
        count(&values, 0, &[0], &mut counts);
        let first = usize::try_from(pattern(1.0) >> 48).unwrap();
        assert_eq!(counts[first], 2);
        assert_eq!(collect(&values, 16, &[pattern(1.0) >> 48]), [1.0, 1.0]);
    }
}
