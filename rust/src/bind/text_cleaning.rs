//! Bindings of what cleans columns of text.

use numpy::{PyArray1, PyReadonlyArray1, PyReadwriteArray1};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::errors::row_error;
use super::text::{Given, texts};
use super::{kernel_pool, misuse};
use crate::core::errors::RowFailure;
use crate::text::by_rows::{Made, each, rewritten};
use crate::text::minhash::{MinHash, Scratch as MinHashScratch};
use crate::text::normalise::{Form, Normalise, Spaces};
use crate::text::quality::c4::C4;
use crate::text::quality::fineweb::FineWeb;
use crate::text::quality::gopher::Gopher;
use crate::text::quality::repetition::Repetition;
use crate::text::quality::{Rules, Scratch};
use crate::text::redact::{Kind, redact};
use crate::text::texts::Texts;
use crate::text::words::Splitter;
use crate::text::{clusters, language, simplify};

type Flags<'py> = PyReadonlyArray1<'py, bool>;
type Longs<'py> = PyReadonlyArray1<'py, u64>;
/// How many words each row has, and where each begins and ends.
type Places<'py> = (Vec<usize>, Bound<'py, PyArray1<u32>>, Bound<'py, PyArray1<u32>>);
/// Edges and bytes of a column that was made.
type Written<'py> = (Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<u8>>);

/// Does work on a column, detached from the interpreter.
fn work<T: Send>(
    py: Python<'_>,
    column: &Given<'_>,
    threads: usize,
    work: impl FnOnce(&Texts<'_>, Option<&rayon::ThreadPool>) -> Result<T, RowFailure> + Send,
) -> PyResult<T> {
    let texts = texts(column)?;
    let pool = if threads > 1 { Some(kernel_pool(threads)?) } else { None };
    py.detach(|| work(&texts, pool.as_deref())).map_err(|failure| row_error(py, failure))
}

fn written(py: Python<'_>, made: Made) -> Written<'_> {
    (PyArray1::from_vec(py, made.edges), PyArray1::from_vec(py, made.data))
}

/// Rules about quality.
#[pyclass(frozen)]
pub struct TextRules {
    rules: Box<dyn Rules + Send>,
    editor: Option<C4>,
}

#[pymethods]
impl TextRules {
    #[new]
    fn new(name: &str, given: &Bound<'_, PyDict>) -> PyResult<Self> {
        Ok(match name {
            "gopher" => Self { rules: Box::new(gopher_of(given)?), editor: None },
            "fineweb" => Self { rules: Box::new(fineweb_of(given)?), editor: None },
            "c4" => Self { rules: Box::new(c4_of(given)?), editor: Some(c4_of(given)?) },
            _ => return Err(misuse(format!("no rules {name:?}"))),
        })
    }

    /// The rules' names; the first is "", of texts that break none.
    fn names(&self) -> Vec<String> {
        self.rules.names()
    }

    /// The number of the first rule that each row breaks, 0 for none and for a row without text.
    fn broken<'py>(&self, py: Python<'py>, column: Given<'py>, threads: usize) -> PyResult<Bound<'py, PyArray1<u8>>> {
        let rules = &self.rules;
        let found = work(py, &column, threads, |texts, pool| {
            each(texts, pool, Scratch::default, |scratch, text| text.map_or(0, |text| rules.broken(text, scratch)))
        })?;
        Ok(PyArray1::from_vec(py, found))
    }

    /// What C4 keeps of each row; nothing of one that it drops.
    fn edited<'py>(&self, py: Python<'py>, column: Given<'py>, threads: usize) -> PyResult<Written<'py>> {
        let editor = self.editor.as_ref().ok_or_else(|| misuse("these rules edit nothing"))?;
        let made = work(py, &column, threads, |texts, pool| {
            rewritten(texts, pool, Scratch::default, |scratch, text, out| {
                if let Ok(kept) = editor.edited(text, scratch) {
                    out.push_str(&kept);
                }
            })
        })?;
        Ok(written(py, made))
    }
}

fn item<'py, T: for<'a> FromPyObject<'a, 'py, Error: Into<PyErr>>>(
    from: &Bound<'py, PyDict>,
    name: &str,
) -> PyResult<T> {
    let value = from.get_item(name)?.ok_or_else(|| misuse(format!("no {name:?} among the rules")))?;
    value.extract().map_err(Into::into)
}

fn gopher_of(given: &Bound<'_, PyDict>) -> PyResult<Gopher> {
    let of_quality = |name: &str| item::<Option<f64>>(given, name);
    Ok(Gopher {
        min_doc_words: of_quality("min_doc_words")?,
        max_doc_words: of_quality("max_doc_words")?,
        min_avg_word_length: of_quality("min_avg_word_length")?,
        max_avg_word_length: of_quality("max_avg_word_length")?,
        max_symbol_word_ratio: of_quality("max_symbol_word_ratio")?,
        max_bullet_lines_ratio: of_quality("max_bullet_lines_ratio")?,
        max_ellipsis_lines_ratio: of_quality("max_ellipsis_lines_ratio")?,
        max_non_alpha_words_ratio: of_quality("max_non_alpha_words_ratio")?,
        min_stop_words: of_quality("min_stop_words")?,
        stop_words: item(given, "stop_words")?,
        repetition: if item(given, "repetition")? { Some(repetition_of(given)?) } else { None },
    })
}

fn repetition_of(given: &Bound<'_, PyDict>) -> PyResult<Repetition> {
    Ok(Repetition {
        dup_line_frac: item(given, "dup_line_frac")?,
        dup_para_frac: item(given, "dup_para_frac")?,
        dup_line_char_frac: item(given, "dup_line_char_frac")?,
        dup_para_char_frac: item(given, "dup_para_char_frac")?,
        top_n_grams: item(given, "top_n_grams")?,
        dup_n_grams: item(given, "dup_n_grams")?,
    })
}

fn fineweb_of(given: &Bound<'_, PyDict>) -> PyResult<FineWeb> {
    Ok(FineWeb {
        line_punct_thr: item(given, "line_punct_thr")?,
        line_punct_exclude_zero: item(given, "line_punct_exclude_zero")?,
        stop_chars: item(given, "stop_chars")?,
        short_line_thr: item(given, "short_line_thr")?,
        short_line_length: item(given, "short_line_length")?,
        char_duplicates_ratio: item(given, "char_duplicates_ratio")?,
        new_line_ratio: item(given, "new_line_ratio")?,
    })
}

fn c4_of(given: &Bound<'_, PyDict>) -> PyResult<C4> {
    Ok(C4 {
        split_paragraph: item(given, "split_paragraph")?,
        remove_citations: item(given, "remove_citations")?,
        filter_no_terminal_punct: item(given, "filter_no_terminal_punct")?,
        min_num_sentences: item(given, "min_num_sentences")?,
        min_words_per_line: item(given, "min_words_per_line")?,
        max_word_length: item(given, "max_word_length")?,
        filter_lorem_ipsum: item(given, "filter_lorem_ipsum")?,
        filter_javascript: item(given, "filter_javascript")?,
        filter_curly_bracket: item(given, "filter_curly_bracket")?,
        filter_policy: item(given, "filter_policy")?,
    })
}

/// The English words of each row: how many, and where each begins and ends in its row, in bytes.
#[pyfunction]
fn text_words<'py>(py: Python<'py>, column: Given<'py>) -> PyResult<Places<'py>> {
    let rows = work(py, &column, 1, |texts, pool| {
        each(texts, pool, Splitter::default, |splitter, text| {
            let mut words = Vec::new();
            splitter.split(text.unwrap_or(""), &mut words, false);
            words
        })
    })?;
    let (starts, ends) = rows.iter().flatten().map(|word| (word.start, word.end)).unzip();
    let counts = rows.iter().map(Vec::len).collect();
    Ok((counts, PyArray1::from_vec(py, starts), PyArray1::from_vec(py, ends)))
}

/// Each row as MinHash compares it.
#[pyfunction]
fn text_simplified<'py>(py: Python<'py>, column: Given<'py>, threads: usize) -> PyResult<Written<'py>> {
    let made = work(py, &column, threads, |texts, pool| {
        rewritten(texts, pool, String::new, |simple, text, out| {
            simplify::simplify(text, crate::text::characters::Classes::get(), simple);
            out.push_str(simple);
        })
    })?;
    Ok(written(py, made))
}

/// MinHash: a number for each row and band; 0 for rows without text.
#[pyfunction]
fn text_bands<'py>(
    py: Python<'py>,
    column: Given<'py>,
    shingle: usize,
    bands: usize,
    hashes_per_band: usize,
    seed: u64,
    threads: usize,
) -> PyResult<Bound<'py, PyArray1<u64>>> {
    if shingle == 0 || bands == 0 || hashes_per_band == 0 || bands.saturating_mul(hashes_per_band) > 1 << 16 {
        return Err(misuse("a signature has from 1 to 65,536 numbers"));
    }
    let hasher = MinHash::new(shingle, bands, hashes_per_band, seed);
    let rows = work(py, &column, threads, |texts, pool| {
        each(texts, pool, MinHashScratch::default, |scratch, text| {
            let mut found = Vec::with_capacity(bands);
            match text {
                Some(text) => hasher.bands(text, scratch, &mut found),
                None => found.resize(bands, 0),
            }
            found
        })
    })?;
    Ok(PyArray1::from_vec(py, rows.concat()))
}

/// The 128 bits of XXH3 of each row's bytes, as two numbers; 0 for rows without any.
#[pyfunction]
fn text_digests<'py>(py: Python<'py>, column: Given<'py>, threads: usize) -> PyResult<Bound<'py, PyArray1<u64>>> {
    let (edges, ..) = &column;
    let rows = edges.as_slice()?.len().saturating_sub(1);
    let found = work(py, &column, threads, |texts, pool| {
        let of = |row| {
            texts.get(row).map_or([0; 2], |bytes| {
                let digest = xxhash_rust::xxh3::xxh3_128(bytes);
                [(digest >> 64) as u64, digest as u64]
            })
        };
        Ok(match pool {
            Some(pool) => pool.install(|| {
                use rayon::prelude::*;
                (0..rows).into_par_iter().with_min_len(64).flat_map_iter(of).collect::<Vec<u64>>()
            }),
            None => (0..rows).flat_map(of).collect(),
        })
    })?;
    Ok(PyArray1::from_vec(py, found))
}

/// Joins the sets of rows whose keys are equal, each of `width` numbers: see `clusters::join_equal`.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
fn join_equal(
    py: Python<'_>,
    mut roots: PyReadwriteArray1<'_, u32>,
    keys: Longs<'_>,
    present: Flags<'_>,
    width: usize,
) -> PyResult<()> {
    let (roots, keys, present) = (roots.as_slice_mut()?, keys.as_slice()?, present.as_slice()?);
    let fits = keys.len() == roots.len() * width && (present.is_empty() || present.len() == roots.len());
    let points = roots.iter().enumerate().all(|(row, &root)| root as usize <= row);
    if !fits || !points || roots.len() >= u32::MAX as usize || !(1..=2).contains(&width) {
        return Err(misuse("roots, keys and present have a place for each row"));
    }
    py.detach(|| {
        if width == 1 {
            clusters::join_equal(roots, keys, present, |key| key);
        } else {
            clusters::join_equal(roots, keys.as_chunks::<2>().0, present, |[high, low]| high ^ low.rotate_left(32));
        }
    });
    Ok(())
}

/// Names each set by its first row, in the place of each.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
fn name_by_first(py: Python<'_>, mut roots: PyReadwriteArray1<'_, u32>) -> PyResult<()> {
    let roots = roots.as_slice_mut()?;
    if roots.iter().enumerate().any(|(row, &root)| root as usize > row) {
        return Err(misuse("a row's root lies in front of it"));
    }
    py.detach(|| clusters::name_by_first(roots));
    Ok(())
}

/// Texts in a normal form, lower case, and with white space in one way.
#[pyfunction]
fn text_normalised<'py>(
    py: Python<'py>,
    column: Given<'py>,
    form: &str,
    lowercase: bool,
    spaces: &str,
    threads: usize,
) -> PyResult<Written<'py>> {
    let form = match form {
        "" => Form::Kept,
        "NFC" => Form::Nfc,
        "NFD" => Form::Nfd,
        "NFKC" => Form::Nfkc,
        "NFKD" => Form::Nfkd,
        _ => return Err(misuse(format!("no form {form:?}"))),
    };
    let spaces = match spaces {
        "keep" => Spaces::Kept,
        "single" => Spaces::Single,
        "lines" => Spaces::Lines,
        _ => return Err(misuse(format!("no white space {spaces:?}"))),
    };
    let normalise = Normalise { form, lowercase, spaces };
    let made = work(py, &column, threads, |texts, pool| {
        rewritten(texts, pool, || (), |(), text, out| normalise.write(text, out))
    })?;
    Ok(written(py, made))
}

/// Texts with other words for what names a person or an account. kinds: names of kinds and what stands for each.
#[pyfunction]
fn text_redacted<'py>(
    py: Python<'py>,
    column: Given<'py>,
    kinds: Vec<(String, String)>,
    threads: usize,
) -> PyResult<Written<'py>> {
    let kinds: Vec<(Kind, String)> = kinds
        .into_iter()
        .map(|(name, word)| {
            Kind::named(&name).map(|kind| (kind, word)).ok_or_else(|| misuse(format!("no kind {name:?}")))
        })
        .collect::<PyResult<_>>()?;
    let made = work(py, &column, threads, |texts, pool| {
        rewritten(texts, pool, || (), |(), text, out| redact(text, &kinds, out))
    })?;
    Ok(written(py, made))
}

/// The language of each row, as a text of its code, and how sure that is.
#[pyfunction]
fn text_languages<'py>(
    py: Python<'py>,
    column: Given<'py>,
    threads: usize,
) -> PyResult<(Written<'py>, Bound<'py, PyArray1<f32>>)> {
    let found = work(py, &column, threads, |texts, pool| {
        each(texts, pool, || (), |(), text| text.map_or(("", 0.0), language::language))
    })?;
    let mut made = Made { edges: vec![0], data: Vec::new() };
    for (code, _) in &found {
        made.data.extend_from_slice(code.as_bytes());
        made.edges.push(made.data.len() as i64);
    }
    Ok((written(py, made), PyArray1::from_vec(py, found.iter().map(|(_, sure)| *sure).collect())))
}

/// The codes of languages that `text_languages` tells.
#[pyfunction]
fn text_language_codes() -> Vec<&'static str> {
    language::codes()
}

/// Adds this file's functions to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<TextRules>()?;
    module.add_function(wrap_pyfunction!(text_words, module)?)?;
    module.add_function(wrap_pyfunction!(text_simplified, module)?)?;
    module.add_function(wrap_pyfunction!(text_bands, module)?)?;
    module.add_function(wrap_pyfunction!(text_digests, module)?)?;
    module.add_function(wrap_pyfunction!(join_equal, module)?)?;
    module.add_function(wrap_pyfunction!(name_by_first, module)?)?;
    module.add_function(wrap_pyfunction!(text_normalised, module)?)?;
    module.add_function(wrap_pyfunction!(text_redacted, module)?)?;
    module.add_function(wrap_pyfunction!(text_languages, module)?)?;
    module.add_function(wrap_pyfunction!(text_language_codes, module)?)
}
