use super::*;

fn is_bijection(size: u64, key: u64) -> bool {
    let permutation = Permutation::new(size, key);
    let mut seen = vec![false; usize::try_from(size).unwrap()];
    (0..size).all(|index| {
        let value = usize::try_from(permutation.apply(index)).unwrap();
        !std::mem::replace(&mut seen[value], true)
    })
}

#[test]
fn every_small_size_is_a_bijection() {
    assert!((1..=4096).all(|size| is_bijection(size, size * 31)));
}

#[test]
fn sizes_around_powers_of_two_are_bijections() {
    for exponent in 12..=20 {
        for size in [(1 << exponent) - 1, 1 << exponent, (1 << exponent) + 1] {
            assert!(is_bijection(size, 5), "size {size}");
        }
    }
}

#[test]
fn many_at_once_are_the_same_as_one_by_one() {
    for size in [1_u64, 2, 3, 63, 64, 65, 1_000, 4_096, 65_537, (1 << 33) + 7, LARGEST - 1, LARGEST] {
        let permutation = Permutation::new(size, 11);
        for first in [0, size / 3, size - size.min(200)] {
            let last = (first + 200).min(size);
            let expected: Vec<u64> = (first..last).map(|index| permutation.apply(index)).collect();
            let (mut run, mut anywhere) = (vec![0; expected.len()], vec![0; expected.len()]);
            permutation.run(first, &mut run);
            permutation.run_anywhere(first, &mut anywhere);
            assert_eq!(run, expected, "size {size} from {first}");
            assert_eq!(anywhere, expected, "size {size} from {first}");
        }
    }
}

#[test]
fn the_inverse_leads_back() {
    for size in [1_u64, 2, 3, 10, 64, 1_000, 1_023, 1_024, 65_537, 1_000_003, (1 << 40) + 12_345, LARGEST] {
        let permutation = Permutation::new(size, 7);
        assert!((0..size.min(2_000)).all(|index| permutation.invert(permutation.apply(index)) == index));
    }
}

#[test]
fn huge_sizes_stay_in_range() {
    for size in [(1 << 40) + 12_345, LARGEST - 5] {
        let permutation = Permutation::new(size, 9);
        assert!((0..10_000).all(|index| permutation.apply(index) < size));
    }
}

/// How far the chi-squared statistic of counts lies from what even chances give, in standard deviations (Wilson & Hilferty).
fn deviation(counts: &[u32]) -> f64 {
    let (expected, freedom) = (f64::from(counts.iter().sum::<u32>()) / counts.len() as f64, counts.len() as f64 - 1.0);
    let chi: f64 = counts.iter().map(|&count| (f64::from(count) - expected).powi(2) / expected).sum();
    let spread = 2.0 / (9.0 * freedom);
    ((chi / freedom).cbrt() - (1.0 - spread)) / spread.sqrt()
}

fn permuted(size: u64, key: u64) -> Vec<u64> {
    let mut values = vec![0; usize::try_from(size).unwrap()];
    Permutation::new(size, key).run(0, &mut values);
    values
}

#[test]
fn every_permutation_of_a_few_is_equally_likely() {
    for size in 2..=6_usize {
        let all: usize = (1..=size).product();
        let mut counts = vec![0; all];
        for key in 0..all as u64 * 50 {
            let values = permuted(size as u64, key);
            let rank = (0..size).fold(0, |rank, place| {
                let smaller = values[place..].iter().filter(|&&value| value < values[place]).count();
                rank * (size - place) + smaller
            });
            counts[rank] += 1;
        }
        let found = deviation(&counts);
        assert!(found.abs() < 4.0, "{size} values: {found:.1} standard deviations");
    }
}

#[test]
fn every_pair_is_equally_likely_at_neighbouring_places() {
    // Just below FEW and above it, too, in 16 equal parts; the values of one part are few enough not to matter.
    for (size, parts) in [(8, 8), (9, 9), (17, 17), (25, 25), (16 * 63, 16), (16 * 64, 16), (16 * 69, 16)] {
        let mut counts = vec![0; usize::try_from(parts * parts).unwrap()];
        for key in 0..40_000 {
            let permutation = Permutation::new(size, key);
            let part = |place| permutation.apply(place) * parts / size;
            counts[usize::try_from(part(0) * parts + part(1)).unwrap()] += 1;
        }
        if size == parts {
            let twice = usize::try_from(parts).unwrap() + 1;
            counts = counts.iter().enumerate().filter(|(at, _)| at % twice != 0).map(|(_, count)| *count).collect();
        }
        let found = deviation(&counts);
        assert!(found.abs() < 4.0, "{size} values: {found:.1} standard deviations");
    }
}

#[test]
fn neighbours_lie_at_every_distance() {
    for size in [10_000_u64, 1_000_000, 1_234_567] {
        let values = permuted(size, 5);
        let width = ceil_root(size) as usize;
        for apart in [1, 2, 3, 64, width, width + 1] {
            let mut counts = vec![0; 500];
            for (value, later) in values.iter().zip(&values[apart..]) {
                counts[((later + size - value) % size * 500 / size) as usize] += 1;
            }
            let found = deviation(&counts);
            assert!(found.abs() < 4.0, "{size} values, {apart} apart: {found:.1} standard deviations");
        }
    }
}

#[test]
fn every_value_is_equally_likely_at_every_place() {
    // Chi-squared over 10 places × 10 values, 20,000 keys: mean 81 (9 × 9 degrees of freedom), far tail at 140.
    let (size, keys) = (10_usize, 20_000);
    let mut counts = vec![0_f64; size * size];
    for key in 0..keys {
        let permutation = Permutation::new(size as u64, key);
        for place in 0..size {
            counts[place * size + usize::try_from(permutation.apply(place as u64)).unwrap()] += 1.0;
        }
    }
    let expected = keys as f64 / size as f64;
    let chi: f64 = counts.iter().map(|count| (count - expected).powi(2) / expected).sum();
    assert!(chi < 140.0, "chi-squared {chi}");
}

#[test]
fn neighbours_are_not_correlated() {
    let size = 100_000_u64;
    let permutation = Permutation::new(size, 3);
    let values: Vec<f64> = (0..size).map(|index| permutation.apply(index) as f64).collect();
    let mean = (size - 1) as f64 / 2.0;
    let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>();
    let covariance = values.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum::<f64>();
    assert!((covariance / variance).abs() < 0.02, "serial correlation {}", covariance / variance);
}
