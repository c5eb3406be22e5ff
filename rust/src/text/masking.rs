//! What language models learn to fill in: tokens that are masked, spans that are taken out, and the middles of texts. What a row draws comes of its own key.

use crate::core::keys::{Rng, mix};

/// Which tokens are masked, and what stands in their places.
#[derive(Clone, Debug)]
pub struct Masking {
    /// How many of a row's tokens are to be guessed, from 0 to 1.
    pub share: f64,
    /// How many of these become the mask.
    pub masked: f64,
    /// How many become any token; the others stay.
    pub random: f64,
    /// The mask.
    pub mask: i64,
    /// How many tokens there are.
    pub vocabulary: u64,
    /// Those that are never guessed, in ascending order.
    pub special: Vec<i64>,
}

/// Masks rows of tokens where they lie. labels: gets what is to be guessed, and stays as it is elsewhere.
pub fn mask_tokens(how: &Masking, tokens: &mut [i64], labels: &mut [i64], edges: &[i64], keys: &[u64], number: u64) {
    for (row, key) in keys.iter().enumerate() {
        let mut rng = Rng::new(mix(&[*key, number]));
        let places = edges[row] as usize..edges[row + 1] as usize;
        for (token, label) in tokens[places.clone()].iter_mut().zip(&mut labels[places]) {
            if rng.uniform() >= how.share || how.special.binary_search(token).is_ok() {
                continue;
            }
            *label = *token;
            let kind = rng.uniform();
            if kind < how.masked {
                *token = how.mask;
            } else if kind < how.masked + how.random {
                *token = rng.below(how.vocabulary) as i64;
            }
        }
    }
}

/// Which spans are taken out of a row, as T5 does it.
#[derive(Clone, Debug)]
pub struct Spans {
    /// How many of a row's tokens, from 0 to 1.
    pub share: f64,
    /// Tokens of a span, on average.
    pub mean: f64,
    /// What stands in the place of the first span, of the second, and so on.
    pub sentinels: Vec<i64>,
    /// What stands at the end of both, if anything.
    pub end: Option<i64>,
}

/// Rows of numbers, one behind the other.
#[derive(Default, Debug, PartialEq, Eq)]
pub struct Rows {
    /// The numbers.
    pub values: Vec<i64>,
    /// Where each row begins, and the end of the last.
    pub edges: Vec<i64>,
}

impl Rows {
    fn starting() -> Self {
        Self { values: Vec::new(), edges: vec![0] }
    }

    fn end_row(&mut self, end: Option<i64>) {
        self.values.extend(end);
        self.edges.push(self.values.len() as i64);
    }
}

/// Rows without their spans, and the spans. The number of sentinels that a row needs, where there are fewer.
pub fn take_spans(
    how: &Spans,
    tokens: &[i64],
    edges: &[i64],
    keys: &[u64],
    number: u64,
) -> Result<(Rows, Rows), (usize, usize)> {
    let (mut inputs, mut targets) = (Rows::starting(), Rows::starting());
    for (row, key) in keys.iter().enumerate() {
        let mut rest = &tokens[edges[row] as usize..edges[row + 1] as usize];
        let mut rng = Rng::new(mix(&[*key, number]));
        let (taken, spans) = counts(how, rest.len());
        if spans > how.sentinels.len() {
            return Err((row, spans));
        }
        let (between, lengths) = (segments(&mut rng, rest.len() - taken, spans), segments(&mut rng, taken, spans));
        for ((between, length), sentinel) in between.into_iter().zip(lengths).zip(&how.sentinels) {
            let (kept, after) = rest.split_at(between);
            let (span, after) = after.split_at(length);
            inputs.values.extend_from_slice(kept);
            inputs.values.push(*sentinel);
            targets.values.push(*sentinel);
            targets.values.extend_from_slice(span);
            rest = after;
        }
        inputs.values.extend_from_slice(rest);
        inputs.end_row(how.end);
        targets.end_row(how.end);
    }
    Ok((inputs, targets))
}

/// How many tokens are taken out of a row, and in how many spans: none of fewer than two tokens.
fn counts(how: &Spans, length: usize) -> (usize, usize) {
    if length < 2 {
        return (0, 0);
    }
    let taken = ((length as f64 * how.share).round_ties_even() as usize).clamp(1, length - 1);
    let spans = ((taken as f64 / how.mean).round_ties_even() as usize).clamp(1, taken.min(length - taken));
    (taken, spans)
}

/// The lengths of so many segments, each of one item or more: every way to cut is as likely.
fn segments(rng: &mut Rng, items: usize, count: usize) -> Vec<usize> {
    if count == 0 {
        return Vec::new();
    }
    let (mut lengths, mut cuts) = (vec![1], count - 1);
    for place in 1..items {
        if (rng.below((items - place) as u64) as usize) < cuts {
            cuts -= 1;
            lengths.push(0);
        }
        *lengths.last_mut().expect("it begins with one") += 1;
    }
    lengths
}

/// Which texts are cut in three, and what stands between the parts.
#[derive(Clone, Debug)]
pub struct Middles {
    /// How many texts, from 0 to 1.
    pub share: f64,
    /// In how many of these the suffix comes first.
    pub suffix_first: f64,
    /// What stands before the prefix, the suffix and the middle.
    pub marks: [String; 3],
}

/// A text with its middle at its end, or as it is. The mark that it holds already, as an error.
pub fn move_middle(how: &Middles, text: &str, key: u64, number: u64, out: &mut String) -> Result<(), String> {
    if let Some(mark) = how.marks.iter().find(|mark| text.contains(mark.as_str())) {
        return Err(mark.clone());
    }
    let mut rng = Rng::new(mix(&[key, number]));
    if rng.uniform() >= how.share {
        out.push_str(text);
        return Ok(());
    }
    let places = text.chars().count() as u64 + 1;
    let (one, other, is_suffix_first) = (rng.below(places), rng.below(places), rng.uniform() < how.suffix_first);
    let (prefix, rest) = text.split_at(byte_of(text, one.min(other)));
    let (middle, suffix) = rest.split_at(byte_of(rest, one.abs_diff(other)));
    let [before_prefix, before_suffix, before_middle] = &how.marks;
    let parts: [&str; 6] = if is_suffix_first {
        [before_prefix, before_suffix, suffix, before_middle, prefix, middle]
    } else {
        [before_prefix, prefix, before_suffix, suffix, before_middle, middle]
    };
    out.extend(parts);
    Ok(())
}

/// The byte at which a character begins.
fn byte_of(text: &str, place: u64) -> usize {
    text.char_indices().nth(place as usize).map_or(text.len(), |(byte, _)| byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masking() -> Masking {
        Masking { share: 0.15, masked: 0.8, random: 0.1, mask: 7, vocabulary: 1000, special: vec![0, 2] }
    }

    #[test]
    fn shares_are_kept() {
        let mut tokens: Vec<i64> = (0..100_000).map(|i| i % 500).collect();
        let (given, mut labels) = (tokens.clone(), vec![-100; tokens.len()]);
        mask_tokens(&masking(), &mut tokens, &mut labels, &[0, 100_000], &[9], 3);
        let guessed: Vec<usize> = (0..tokens.len()).filter(|&i| labels[i] != -100).collect();
        assert!((guessed.len() as f64 / 99_600.0 - 0.15).abs() < 0.005);
        assert!(guessed.iter().all(|&i| labels[i] == given[i] && ![0, 2].contains(&given[i])));
        assert!((0..tokens.len()).all(|i| labels[i] != -100 || tokens[i] == given[i]));
        let masked = guessed.iter().filter(|&&i| tokens[i] == 7).count() as f64 / guessed.len() as f64;
        let kept = guessed.iter().filter(|&&i| tokens[i] == given[i]).count() as f64 / guessed.len() as f64;
        assert!((masked - 0.8).abs() < 0.02 && (kept - 0.1).abs() < 0.02, "{masked} {kept}");
    }

    #[test]
    fn a_row_draws_by_its_own_key() {
        let (mut alone, mut beside) = ((10..40).collect::<Vec<i64>>(), (10..40).chain(10..40).collect::<Vec<i64>>());
        let mut labels = vec![-100; 60];
        mask_tokens(&masking(), &mut beside, &mut labels, &[0, 30, 60], &[5, 6], 0);
        mask_tokens(&masking(), &mut alone, &mut labels[..30], &[0, 30], &[6], 0);
        assert_eq!(alone, beside[30..]);
    }

    fn spans() -> Spans {
        Spans { share: 0.15, mean: 3.0, sentinels: (0..100).map(|i| -1 - i).collect(), end: Some(1) }
    }

    #[test]
    fn spans_and_the_rest_are_the_row() {
        for length in 0..400_i64 {
            let tokens: Vec<i64> = (100..100 + length).collect();
            let (inputs, targets) = take_spans(&spans(), &tokens, &[0, length], &[4], 2).unwrap();
            let mut whole = Vec::new();
            let mut pieces =
                targets.values.split(|&value| value < 0).skip(1).map(|piece| piece.iter().filter(|&&one| one != 1));
            for value in inputs.values.iter().filter(|&&one| one != 1) {
                if *value < 0 { whole.extend(pieces.next().unwrap().copied()) } else { whole.push(*value) }
            }
            assert_eq!(whole, tokens);
            assert_eq!((inputs.values.last(), targets.values.last()), (Some(&1), Some(&1)));
        }
    }

    #[test]
    fn counts_are_those_of_t5() {
        let found: Vec<_> = [0, 1, 2, 5, 10, 30, 100, 512].map(|length| counts(&spans(), length)).into();
        assert_eq!(found, [(0, 0), (0, 0), (1, 1), (1, 1), (2, 1), (4, 1), (15, 5), (77, 26)]);
    }

    #[test]
    fn all_cuts_are_as_likely() {
        let mut seen = std::collections::BTreeMap::new();
        for key in 0..6000 {
            *seen.entry(segments(&mut Rng::new(key), 5, 3)).or_insert(0) += 1;
        }
        assert_eq!(seen.len(), 6);
        assert!(seen.iter().all(|(lengths, times)| lengths.iter().sum::<usize>() == 5 && (850..1150).contains(times)));
    }

    #[test]
    fn too_few_sentinels_are_told() {
        let how = Spans { sentinels: vec![-1], ..spans() };
        assert_eq!(take_spans(&how, &[5; 110], &[0, 10, 110], &[1, 2], 0), Err((1, 5)));
    }

    #[test]
    fn middles_go_to_the_end() {
        let how = Middles { share: 1.0, suffix_first: 0.5, marks: ["<P>", "<S>", "<M>"].map(str::to_owned) };
        let mut both = [0, 0];
        for key in 0..200 {
            let mut out = String::new();
            move_middle(&how, "aéb日c", key, 0, &mut out).unwrap();
            let (head, middle) = out.split_once("<M>").unwrap();
            let (prefix, suffix) = head.strip_prefix("<P>").unwrap().split_once("<S>").unwrap();
            let is_suffix_first =
                format!("{prefix}{middle}{suffix}") != "aéb日c" || prefix.is_empty() && !suffix.is_empty();
            both[usize::from(is_suffix_first)] += 1;
            assert_eq!(out.chars().count(), 5 + 9);
            assert!([format!("{prefix}{middle}{suffix}"), format!("{middle}{suffix}")].contains(&"aéb日c".to_owned()));
        }
        assert!(both[0] > 40 && both[1] > 40);
        assert_eq!(move_middle(&how, "a<S>", 1, 0, &mut String::new()), Err("<S>".to_owned()));
        let (never, mut out) = (Middles { share: 0.0, ..how }, String::new());
        move_middle(&never, "", 1, 0, &mut out).unwrap();
        assert_eq!(out, "");
    }
}
