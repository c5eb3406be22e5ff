//! Work on each row of a column, by several threads, in order.

use rayon::ThreadPool;
use rayon::prelude::*;

use super::texts::Texts;
use crate::core::errors::RowFailure;

/// Bytes, and rows, of a piece of work.
const PIECE: (usize, usize) = (1 << 18, 1 << 12);
/// Places in a text are numbers of 32 bits.
const LONGEST: usize = u32::MAX as usize - 1;

/// Texts one behind the other.
pub struct Made {
    /// Where each row begins, and where the last one ends.
    pub edges: Vec<i64>,
    /// Their bytes.
    pub data: Vec<u8>,
}

/// What `work` makes of each row, None of a row without text. `begin` makes what a thread works with.
///
/// # Errors
/// Of the first row that is no UTF-8, or longer than 4 GiB.
pub fn each<S, T: Send>(
    texts: &Texts<'_>,
    pool: Option<&ThreadPool>,
    begin: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, Option<&str>) -> T + Sync,
) -> Result<Vec<T>, RowFailure> {
    let made = pieces(texts, pool, |first, last| {
        let mut scratch = begin();
        (first..last).map(|row| Ok(work(&mut scratch, text_of(texts, row)?))).collect::<Result<Vec<T>, _>>()
    })?;
    Ok(made.into_iter().flatten().collect())
}

/// The texts that `work` writes, one for each row that has a text.
///
/// # Errors
/// As of [`each`].
pub fn rewritten<S>(
    texts: &Texts<'_>,
    pool: Option<&ThreadPool>,
    begin: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, &str, &mut String) + Sync,
) -> Result<Made, RowFailure> {
    let made = pieces(texts, pool, |first, last| {
        let mut scratch = begin();
        let (mut data, mut ends) = (String::with_capacity(texts.size(first, last)), Vec::with_capacity(last - first));
        for row in first..last {
            if let Some(text) = text_of(texts, row)? {
                work(&mut scratch, text, &mut data);
            }
            ends.push(data.len());
        }
        Ok((data, ends))
    })?;
    let mut all = Made { edges: Vec::with_capacity(texts.rows() + 1), data: Vec::new() };
    all.data.reserve_exact(made.iter().map(|(data, _)| data.len()).sum());
    all.edges.push(0);
    for (data, ends) in made {
        let before = all.data.len();
        all.edges.extend(ends.into_iter().map(|end| (before + end) as i64));
        all.data.extend_from_slice(data.as_bytes());
    }
    Ok(all)
}

/// A row's text.
fn text_of<'a>(texts: &Texts<'a>, row: usize) -> Result<Option<&'a str>, RowFailure> {
    let fail = |found, remedy: &str| RowFailure { row, found, remedy: remedy.to_owned() };
    let text = texts.text(row).map_err(|found| fail(found, "write the file in UTF-8"))?;
    match text.map(str::len).filter(|&length| length > LONGEST) {
        Some(length) => {
            Err(fail(format!("a text of {length} bytes, of which there may be 4 GiB"), "cut it into several rows"))
        }
        None => Ok(text),
    }
}

/// What `work` makes of neighbouring rows, `first` to `last - 1`.
fn pieces<T: Send>(
    texts: &Texts<'_>,
    pool: Option<&ThreadPool>,
    work: impl Fn(usize, usize) -> Result<T, RowFailure> + Sync,
) -> Result<Vec<T>, RowFailure> {
    let mut cuts = vec![0];
    for row in 0..texts.rows() {
        let first = cuts[cuts.len() - 1];
        if texts.size(first, row + 1) >= PIECE.0 || row + 1 - first >= PIECE.1 || row + 1 == texts.rows() {
            cuts.push(row + 1);
        }
    }
    let spans: Vec<(usize, usize)> = cuts.windows(2).map(|pair| (pair[0], pair[1])).collect();
    let made: Vec<Result<T, RowFailure>> = match pool {
        Some(pool) if spans.len() > 1 => {
            pool.install(|| spans.into_par_iter().map(|(first, last)| work(first, last)).collect())
        }
        _ => spans.into_iter().map(|(first, last)| work(first, last)).collect(),
    };
    made.into_iter().collect()
}
