//! Bindings of `text`.

use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::watched::watched;
use super::{Bytes, Ids, kernel_pool, misuse};
use crate::core::errors::RowFailure;
use crate::text::engine::{Engine, Special};
use crate::text::texts::Texts;
use crate::text::tiktoken;
use crate::text::tokenize::{Options, Rows, tokenize};

/// A column of texts, whose memory is Python's: edges, bytes, and which rows have none.
pub type Given<'py> = (Ids<'py>, Bytes<'py>, Option<PyReadonlyArray1<'py, bool>>);

/// The column of such parts.
pub fn texts<'a>((edges, data, missing): &'a Given<'_>) -> PyResult<Texts<'a>> {
    let missing = missing.as_ref().map_or(Ok(&[][..]), |flags| flags.as_slice())?;
    Texts::new(edges.as_slice()?, data.as_slice()?, missing)
        .ok_or_else(|| misuse("a column's parts do not fit together"))
}

/// Shorter columns are not worth looking whether the work is still wanted.
const LONG_BYTES: usize = 1 << 22;

/// A tokenizer: columns of texts become columns of ids. For any number of threads at once.
#[pyclass(frozen, module = "penstock._core")]
struct TextTokenizer {
    engine: Engine,
}

/// Ids, where each row ends, types of tokens, first and last bytes of tokens; and bad rows.
type Made<'py> = (
    Bound<'py, PyArray1<i32>>,
    Bound<'py, PyArray1<i64>>,
    Bound<'py, PyArray1<u8>>,
    Bound<'py, PyArray1<i32>>,
    Vec<(usize, String, String)>,
);

#[pymethods]
impl TextTokenizer {
    /// Of a tokenizer.json; ValueError in words for what is none.
    #[staticmethod]
    fn of_json(py: Python<'_>, text: &str, spans: bool) -> PyResult<Self> {
        py.detach(|| finish(Engine::of_json(text), spans))
    }

    /// Of an encoding of tiktoken: the bytes of its file, its pattern and its special tokens.
    #[staticmethod]
    #[allow(clippy::needless_pass_by_value)]
    fn of_ranks(
        py: Python<'_>,
        data: &[u8],
        pattern: &str,
        specials: Vec<(String, u32)>,
        spans: bool,
    ) -> PyResult<Self> {
        py.detach(|| {
            finish(tiktoken::read_ranks(data).and_then(|ranks| tiktoken::engine(&ranks, pattern, &specials)), spans)
        })
    }

    /// Of a model of SentencePiece.
    #[staticmethod]
    fn of_sentencepiece(py: Python<'_>, data: &[u8], spans: bool) -> PyResult<Self> {
        py.detach(|| finish(Engine::of_sentencepiece(data), spans))
    }

    /// Whether special tokens in texts can become their ids.
    fn has_special_ids(&self) -> bool {
        self.engine.has_special_ids()
    }

    /// The id of a token; None for none.
    fn id_of(&self, token: &str) -> Option<u32> {
        self.engine.id_of(token)
    }

    /// How many tokens are added around one text, and around two.
    fn added(&self) -> (usize, usize) {
        let (single, pair) = self.engine.templates();
        (single.n_special(), pair.n_special())
    }

    /// Tokens of a column of texts, or of pairs of texts.
    #[pyo3(signature = (given, second, *, add_special, special, most, keeps_last, begin, end, spans, types, threads))]
    #[allow(clippy::too_many_arguments, clippy::needless_pass_by_value)]
    fn run<'py>(
        &self,
        py: Python<'py>,
        given: Given<'py>,
        second: Option<Given<'py>>,
        add_special: bool,
        special: &str,
        most: usize,
        keeps_last: bool,
        begin: Option<u32>,
        end: Option<u32>,
        spans: bool,
        types: bool,
        threads: usize,
    ) -> PyResult<Made<'py>> {
        let special = match special {
            "as_text" => Special::AsText,
            "as_token" => Special::AsToken,
            _ => Special::Error,
        };
        let options = Options { add_special, special, most, keeps_last, begin, end, spans, types };
        let first = texts(&given)?;
        let other = second.as_ref().map(texts).transpose()?;
        if other.is_some_and(|other| other.rows() != first.rows()) {
            return Err(misuse("two columns of different lengths"));
        }
        let size = first.size(0, first.rows()) + other.map_or(0, |other| other.size(0, other.rows()));
        let work = |pool: Option<&rayon::ThreadPool>| {
            let (parts, failures) = tokenize(&self.engine, &options, &first, other.as_ref(), pool);
            (joined(parts), failures)
        };
        let (rows, failures) = if size < LONG_BYTES {
            let pool = if threads > 1 { Some(kernel_pool(threads)?) } else { None };
            py.detach(|| work(pool.as_deref()))
        } else {
            let pool = kernel_pool(threads.max(1))?;
            watched(py, &pool, |_| work(Some(&pool)))?
        };
        let edges = edges(&rows.lengths);
        Ok((
            rows.ids.into_pyarray(py),
            edges.into_pyarray(py),
            rows.types.into_pyarray(py),
            rows.spans.into_pyarray(py),
            failures.into_iter().map(|RowFailure { row, found, remedy }| (row, found, remedy)).collect(),
        ))
    }
}

fn finish(engine: Result<Engine, String>, spans: bool) -> PyResult<TextTokenizer> {
    let engine = engine.and_then(|engine| if spans { engine.with_lengths() } else { Ok(engine) });
    engine.map(|engine| TextTokenizer { engine }).map_err(PyValueError::new_err)
}

fn joined(parts: Vec<Rows>) -> Rows {
    let mut parts = parts.into_iter();
    let mut all = parts.next().unwrap_or_default();
    let rest: Vec<Rows> = parts.collect();
    all.ids.reserve_exact(rest.iter().map(|part| part.ids.len()).sum());
    for part in rest {
        all.ids.extend_from_slice(&part.ids);
        all.lengths.extend_from_slice(&part.lengths);
        all.types.extend_from_slice(&part.types);
        all.spans.extend_from_slice(&part.spans);
    }
    all
}

fn edges(lengths: &[usize]) -> Vec<i64> {
    let mut end = 0;
    std::iter::once(0)
        .chain(lengths.iter().map(|&length| {
            end += length as i64;
            end
        }))
        .collect()
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<TextTokenizer>()
}
