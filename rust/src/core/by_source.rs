//! Rows divided among the sources that they belong to, and parts put together again: what stands between the order of several sources and
//! their readers.

/// Rows by their sources, in the order of these; those of a source stay in their order.
#[derive(Debug, PartialEq, Eq)]
pub struct Divided {
    /// Where each row stood among all.
    pub places: Vec<i64>,
    /// Its id in its source.
    pub samples: Vec<i64>,
    /// Where each source's rows begin, and the end of all.
    pub edges: Vec<i64>,
}

/// Divides rows by their ids; source s has the ids `[first_ids[s], first_ids[s + 1])`, and the last bound is the end of all.
///
/// # Errors
/// The first place whose id no source has.
#[allow(clippy::cast_possible_wrap)]
pub fn divide(ids: &[i64], first_ids: &[i64]) -> Result<Divided, usize> {
    let sources = first_ids.len().saturating_sub(1);
    let mut of = Vec::with_capacity(ids.len());
    let mut next = vec![0_usize; sources + 1];
    for (place, &id) in ids.iter().enumerate() {
        let source = first_ids.partition_point(|&first| first <= id).wrapping_sub(1);
        if source >= sources {
            return Err(place);
        }
        of.push(source as u32);
        next[source + 1] += 1;
    }
    for source in 0..sources {
        next[source + 1] += next[source];
    }
    let edges = next.iter().map(|&edge| edge as i64).collect();
    let (mut places, mut samples) = (vec![0; ids.len()], vec![0; ids.len()]);
    for (place, (&id, &source)) in ids.iter().zip(&of).enumerate() {
        let to = &mut next[source as usize];
        (places[*to], samples[*to]) = (place as i64, id - first_ids[source as usize]);
        *to += 1;
    }
    Ok(Divided { places, samples, edges })
}

/// Where each of `rows` rows lies in parts, row i of part p being that at `places[p][i]`: the parts, and the rows in them.
///
/// # Errors
/// The first part with a place that is not there or taken, or the number of parts if a row is in none.
#[allow(clippy::cast_possible_wrap)]
pub fn sources_of(places: &[&[i64]], rows: usize) -> Result<(Vec<i64>, Vec<i64>), usize> {
    let (mut which, mut row) = (vec![-1; rows], vec![0; rows]);
    for (part, places) in places.iter().enumerate() {
        for (number, &place) in places.iter().enumerate() {
            let place = usize::try_from(place).ok().filter(|&place| which.get(place) == Some(&-1)).ok_or(part)?;
            (which[place], row[place]) = (part as i64, number as i64);
        }
    }
    if which.contains(&-1) { Err(places.len()) } else { Ok((which, row)) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_divided_comes_together(
            counts in prop::collection::vec(0_i64..9, 1..7), picks in prop::collection::vec(any::<prop::sample::Index>(), 0..60),
        ) {
            let mut first_ids = vec![0];
            counts.iter().for_each(|count| first_ids.push(first_ids[first_ids.len() - 1] + count));
            let total = first_ids[first_ids.len() - 1];
            let ids: Vec<i64> =
                if total == 0 { vec![] } else { picks.iter().map(|pick| pick.index(total as usize) as i64).collect() };
            let divided = divide(&ids, &first_ids).unwrap();
            let edges: Vec<usize> = divided.edges.iter().map(|&edge| edge as usize).collect();
            let parts: Vec<&[i64]> = edges.windows(2).map(|edge| &divided.places[edge[0]..edge[1]]).collect();
            prop_assert!(parts.iter().all(|places| places.is_sorted()));
            let (which, row) = sources_of(&parts, ids.len()).unwrap();
            for (place, &id) in ids.iter().enumerate() {
                let (source, row) = (which[place] as usize, row[place] as usize);
                prop_assert_eq!(divided.samples[edges[source] + row] + first_ids[source], id);
                prop_assert!(id < first_ids[source + 1]);
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        assert_eq!(divide(&[0, 5], &[0, 2, 5]), Err(1));
        assert_eq!(divide(&[-1], &[0, 2, 5]), Err(0));
        assert_eq!(divide(&[0], &[]), Err(0));
        assert_eq!(sources_of(&[&[0], &[2]], 2), Err(1));
        assert_eq!(sources_of(&[&[0], &[0]], 2), Err(1));
        assert_eq!(sources_of(&[&[0], &[-1]], 2), Err(1));
        assert_eq!(sources_of(&[&[0], &[]], 2), Err(2));
    }
}
