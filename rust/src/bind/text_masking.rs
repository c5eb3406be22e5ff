//! Bindings of `text::masking`.

use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1, PyReadwriteArray1};
use pyo3::prelude::*;

use super::errors::row_error;
use super::{Bytes, Ids, misuse};
use crate::core::errors::RowFailure;
use crate::text::masking::{self, Masking, Middles, Spans};
use crate::text::texts::Texts;

type Keys<'py> = PyReadonlyArray1<'py, u64>;

/// Whether edges cut so many values into as many rows as there are keys.
fn check(edges: &[i64], keys: usize, values: usize) -> PyResult<()> {
    let fits = edges.len() == keys + 1 && edges[0] == 0 && edges[keys] as usize == values;
    if fits && edges.windows(2).all(|pair| pair[0] <= pair[1]) {
        Ok(())
    } else {
        Err(misuse("rows, values and keys do not fit together"))
    }
}

/// Masks rows of tokens where they lie; `labels` gets what is to be guessed.
#[pyfunction]
#[allow(clippy::needless_pass_by_value, clippy::too_many_arguments)]
fn text_mask(
    py: Python<'_>,
    mut tokens: PyReadwriteArray1<'_, i64>,
    mut labels: PyReadwriteArray1<'_, i64>,
    edges: Ids<'_>,
    keys: Keys<'_>,
    number: u64,
    shares: (f64, f64, f64),
    mask: i64,
    vocabulary: u64,
    special: Vec<i64>,
) -> PyResult<()> {
    let (tokens, labels) = (tokens.as_slice_mut()?, labels.as_slice_mut()?);
    let (edges, keys) = (edges.as_slice()?, keys.as_slice()?);
    check(edges, keys.len(), tokens.len())?;
    if labels.len() != tokens.len() || vocabulary == 0 {
        return Err(misuse("a label for every token, and a token or more"));
    }
    let (share, masked, random) = shares;
    let how = Masking { share, masked, random, mask, vocabulary, special };
    py.detach(|| masking::mask_tokens(&how, tokens, labels, edges, keys, number));
    Ok(())
}

type Rows<'py> = (Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<i64>>);
type TextRows<'py> = (Bound<'py, PyArray1<u8>>, Bound<'py, PyArray1<i64>>);

/// Rows of tokens without spans, and the spans. Raises RowError for a row that needs more sentinels.
#[pyfunction]
#[allow(clippy::needless_pass_by_value, clippy::too_many_arguments)]
fn text_spans<'py>(
    py: Python<'py>,
    tokens: Ids<'py>,
    edges: Ids<'py>,
    keys: Keys<'py>,
    number: u64,
    share: f64,
    mean: f64,
    sentinels: Vec<i64>,
    end: Option<i64>,
) -> PyResult<(Rows<'py>, Rows<'py>)> {
    let (tokens, edges, keys) = (tokens.as_slice()?, edges.as_slice()?, keys.as_slice()?);
    check(edges, keys.len(), tokens.len())?;
    let how = Spans { share, mean, sentinels, end };
    let made = py.detach(|| masking::take_spans(&how, tokens, edges, keys, number));
    let (inputs, targets) = made.map_err(|(row, spans)| {
        let found =
            format!("{spans} spans are taken out of its tokens, and there are {} sentinels", how.sentinels.len());
        let remedy = "cut rows before (max_length=, flat_map), or give more sentinels".to_owned();
        row_error(py, RowFailure { row, found, remedy })
    })?;
    let rows = |made: masking::Rows| (made.values.into_pyarray(py), made.edges.into_pyarray(py));
    Ok((rows(inputs), rows(targets)))
}

/// Texts with their middles at their ends: their bytes and edges. Raises RowError for a text that holds one of the marks.
#[pyfunction]
#[allow(clippy::needless_pass_by_value, clippy::too_many_arguments)]
fn text_middles<'py>(
    py: Python<'py>,
    edges: Ids<'py>,
    data: Bytes<'py>,
    keys: Keys<'py>,
    number: u64,
    share: f64,
    suffix_first: f64,
    marks: [String; 3],
) -> PyResult<TextRows<'py>> {
    let (keys, texts) = (keys.as_slice()?, Texts::new(edges.as_slice()?, data.as_slice()?, &[]));
    let texts =
        texts.filter(|texts| texts.rows() == keys.len()).ok_or_else(|| misuse("texts and keys do not fit together"))?;
    let how = Middles { share, suffix_first, marks };
    let made = py.detach(|| {
        let (mut out, mut ends) = (String::new(), vec![0_i64]);
        for (row, key) in keys.iter().enumerate() {
            let text = texts.text(row).map_err(|found| (row, found))?.unwrap_or_default();
            masking::move_middle(&how, text, *key, number, &mut out)
                .map_err(|mark| (row, format!("the text holds {mark:?}, which marks the parts")))?;
            ends.push(out.len() as i64);
        }
        Ok((out, ends))
    });
    let (out, ends) = made.map_err(|(row, found)| {
        row_error(py, RowFailure { row, found, remedy: "repair the row or leave it out".to_owned() })
    })?;
    Ok((out.into_bytes().into_pyarray(py), ends.into_pyarray(py)))
}

/// Adds the functions of this file.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(text_mask, module)?)?;
    module.add_function(wrap_pyfunction!(text_spans, module)?)?;
    module.add_function(wrap_pyfunction!(text_middles, module)?)
}
