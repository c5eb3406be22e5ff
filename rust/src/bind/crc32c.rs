//! Bindings of `crc32c`.

use numpy::{PyArray1, PyUntypedArrayMethods};
use pyo3::prelude::*;

use super::{Bytes, Ids, kernel_pool, misuse};
use crate::core::crc32c;

/// The CRC-32C of each part of `data`: `length[i]` bytes from `begin[i]`.
#[pyfunction]
fn crc32c_sums<'py>(
    py: Python<'py>,
    data: Bytes<'py>,
    begin: Ids<'py>,
    length: Ids<'py>,
    threads: usize,
) -> PyResult<Bound<'py, PyArray1<u32>>> {
    if begin.len() != length.len() {
        return Err(misuse("begin and length must be equally long"));
    }
    let (data, begin, length) = (data.as_slice()?, begin.as_slice()?, length.as_slice()?);
    let mut out = vec![0; begin.len()];
    let summed = if begin.len() <= crc32c::PARTS_PER_TASK {
        py.detach(|| crc32c::sums_in_turn(data, begin, length, &mut out))
    } else {
        let pool = kernel_pool(threads)?;
        py.detach(|| pool.install(|| crc32c::sums(data, begin, length, &mut out)))
    };
    summed.map_err(|part| misuse(format!("part {part} does not lie in the data")))?;
    Ok(PyArray1::from_vec(py, out))
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(crc32c_sums, module)?)
}
