//! Unigram models of SentencePiece: of all ways to make a text of pieces, the one with the best sum of scores.
//!
//! Sums are rounded to float32 as SentencePiece rounds them (`EncodeOptimized` of `unigram_model.cc`), so that of two ways that are equally good the same one is taken.

use tokenizers::pipeline::PipelineToken;
use yada::DoubleArray;
use yada::builder::DoubleArrayBuilder;

/// A sum beyond this is taken from all that go on from its place, as SentencePiece 0.2.3 does it: in long texts float32 would have no digits left for the next piece.
const MOST: f32 = 100_000.0;
/// What an unknown letter costs beside the worst piece.
const PENALTY: f32 = 10.0;

/// A piece that texts are made of.
pub struct Scored<'a> {
    /// Its letters.
    pub text: &'a str,
    /// Its id.
    pub id: u32,
    /// How likely it is, as a logarithm.
    pub score: f32,
    /// Whether it is taken wherever it stands.
    pub is_symbol: bool,
}

/// A model, ready for any number of threads.
pub struct Unigram {
    trie: DoubleArray<Vec<u8>>,
    scores: Vec<f32>,
    is_symbol: Vec<bool>,
    unknown: u32,
    unknown_score: f32,
    bytes: Option<Vec<u32>>,
}

/// The best way to a place of a text: its sum, and where its last piece begins.
#[derive(Clone, Copy)]
struct Way {
    score: f32,
    start: usize,
    id: u32,
}

const NO_WAY: Way = Way { score: 0.0, start: usize::MAX, id: 0 };

impl Unigram {
    /// A model of these pieces. bytes: the ids of bytes, of which unknown letters are made.
    ///
    /// # Errors
    /// In words, where pieces are not told apart.
    pub fn new(pieces: &[Scored<'_>], unknown: u32, bytes: Option<Vec<u32>>) -> Result<Self, String> {
        let mut keys: Vec<(&[u8], u32)> = pieces.iter().map(|piece| (piece.text.as_bytes(), piece.id)).collect();
        keys.sort_unstable();
        if keys.iter().any(|(key, _)| key.is_empty() || key.contains(&0)) {
            return Err("a piece has no letter, or the letter 0".to_owned());
        }
        let trie = DoubleArrayBuilder::build(&keys).map_err(|error| format!("its pieces are no trie ({error})"))?;
        let most = pieces.iter().map(|piece| piece.id as usize + 1).max().unwrap_or(0);
        let (mut scores, mut is_symbol) = (vec![0.0; most], vec![false; most]);
        for piece in pieces {
            scores[piece.id as usize] = piece.score;
            is_symbol[piece.id as usize] = piece.is_symbol;
        }
        let normal = || pieces.iter().filter(|piece| !piece.is_symbol).map(|piece| piece.score);
        let unknown_score = normal().fold(f32::MAX, f32::min) - PENALTY;
        let trie = DoubleArray::new(trie).map_err(|error| format!("its pieces are no trie ({error})"))?;
        Ok(Self { trie, scores, is_symbol, unknown, unknown_score, bytes })
    }

    /// Adds the ids of a text that is normal already.
    pub fn encode(&self, text: &str, out: &mut Vec<PipelineToken>) {
        let ways = self.ways(text);
        let (first, mut end, mut was_unknown) = (out.len(), text.len(), false);
        while end > 0 {
            let way = ways[end];
            let is_unknown = way.id == self.unknown;
            match &self.bytes {
                Some(bytes) if is_unknown => {
                    let letters = &text.as_bytes()[way.start..end];
                    out.extend(letters.iter().rev().map(|&byte| PipelineToken::from(bytes[usize::from(byte)])));
                }
                _ if is_unknown && was_unknown => {} // neighbours are one
                _ => out.push(PipelineToken::from(way.id)),
            }
            (end, was_unknown) = (way.start, is_unknown);
        }
        out[first..].reverse();
    }

    fn ways(&self, text: &str) -> Vec<Way> {
        let (mut ways, mut reached) = (vec![NO_WAY; text.len() + 1], 0);
        for (start, letter) in text.char_indices() {
            let (mut before, mut is_known) = (ways[start].score, false);
            if before.abs() > MOST {
                ways[start..=reached]
                    .iter_mut()
                    .filter(|way| way.start != usize::MAX)
                    .for_each(|way| way.score -= before);
                before = 0.0;
            }
            for (id, length) in self.trie.common_prefix_search(&text.as_bytes()[start..]) {
                let score = if self.is_symbol[id as usize] {
                    (0.1 * (length as f64 - 1.0)) as f32
                } else {
                    self.scores[id as usize]
                };
                ways[start + length].improve(score + before, start, id);
                reached = reached.max(start + length);
                is_known |= length == letter.len_utf8();
            }
            if !is_known {
                ways[start + letter.len_utf8()].improve(self.unknown_score + before, start, self.unknown);
                reached = reached.max(start + letter.len_utf8());
            }
        }
        ways
    }
}

impl Way {
    fn improve(&mut self, score: f32, start: usize, id: u32) {
        if self.start == usize::MAX || score > self.score {
            *self = Self { score, start, id };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(model: &Unigram, text: &str) -> Vec<u32> {
        let mut out = Vec::new();
        model.encode(text, &mut out);
        out.into_iter().map(PipelineToken::id).collect()
    }

    #[test]
    fn the_best_sum_is_taken() {
        let piece = |text, id, score| Scored { text, id, score, is_symbol: false };
        let pieces = [piece("a", 1, -1.0), piece("b", 2, -1.0), piece("ab", 3, -1.5), piece("ba", 4, -3.0)];
        let model = Unigram::new(&pieces, 0, None).unwrap();
        assert_eq!(ids(&model, "abba"), [3, 2, 1]);
        assert_eq!(ids(&model, "a☃☃b"), [1, 0, 2]);
        assert_eq!(ids(&model, ""), [0; 0]);
        let model = Unigram::new(&pieces, 0, Some((10..266).collect())).unwrap();
        assert_eq!(ids(&model, "é"), [10 + 0xc3, 10 + 0xa9]);
    }

    #[test]
    fn symbols_are_taken_wherever_they_stand() {
        let piece = |text, id, score, is_symbol| Scored { text, id, score, is_symbol };
        let pieces = [piece("a", 1, -1.0, false), piece("aa", 2, -9.0, true)];
        assert_eq!(ids(&Unigram::new(&pieces, 0, None).unwrap(), "aa"), [2]);
    }
}
