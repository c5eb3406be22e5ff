//! Rows that belong together: sets of rows, each named by its first one, joined where keys are equal. What comes out does not depend on the order of joins.

use std::hash::Hash;

/// Joins the sets of rows with equal keys. roots: for each row one in front of it in its set, or itself; of `present` rows only, empty for all.
pub fn join_equal<K: Copy + Eq + Hash>(roots: &mut [u32], keys: &[K], present: &[bool], hash: impl Fn(K) -> u64) {
    let bits = (2 * keys.len().max(32)).next_power_of_two().trailing_zeros();
    let mut slots = vec![u32::MAX; 1 << bits];
    for (row, &key) in keys.iter().enumerate() {
        if !present.is_empty() && !present[row] {
            continue;
        }
        let mut place = (hash(key).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - bits)) as usize;
        loop {
            let first = slots[place];
            if first == u32::MAX {
                slots[place] = row as u32;
                break;
            }
            if keys[first as usize] == key {
                join(roots, first, row as u32);
                break;
            }
            place = (place + 1) & (slots.len() - 1);
        }
    }
}

/// The first row of each row's set, in its place.
pub fn name_by_first(roots: &mut [u32]) {
    for row in 0..roots.len() {
        roots[row] = roots[roots[row] as usize]; // rows in front are done
    }
}

fn join(roots: &mut [u32], one: u32, other: u32) {
    let (one, other) = (root(roots, one), root(roots, other));
    roots[one.max(other) as usize] = one.min(other);
}

/// The first row of a set; the way there gets shorter.
fn root(roots: &mut [u32], mut row: u32) -> u32 {
    while roots[row as usize] != row {
        let above = roots[roots[row as usize] as usize];
        roots[row as usize] = above;
        row = above;
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_are_one_set() {
        let mut roots: Vec<u32> = (0..6).collect();
        join_equal(&mut roots, &[1_u64, 2, 3, 3, 4, 5], &[], |key| key);
        join_equal(&mut roots, &[1_u64, 2, 9, 4, 2, 9], &[true, true, true, true, true, false], |key| key);
        join_equal(&mut roots, &[7_u64, 8, 5, 1, 5, 2], &[], |key| key);
        name_by_first(&mut roots);
        assert_eq!(roots, [0, 1, 1, 1, 1, 5]);
    }
}
