//! Lists of features: one step of a sequence after the other.

use super::Target;
use super::fault::Fault;
use super::feature::{Found, each_step};
use super::kind::Kind;
use super::values;
use super::wire::Part;
use crate::core::columns::Gathered;

/// Stores one list of features of one record; a record that lacks it has no steps.
///
/// # Errors
/// If a step does not hold what the column expects, or all of them together more than `limit` values.
pub fn store(bytes: &[u8], list: Part, target: &Target, limit: usize, gathered: &mut Gathered) -> Result<(), Fault> {
    let (mut steps, mut total) = (0_i64, 0_usize);
    let each = |found: &Found| {
        let held = step(bytes, found, target, limit - total, gathered)?;
        total += held;
        steps += 1;
        if steps as usize > limit {
            return Err(Fault::Many { found: steps as usize, limit });
        }
        gathered.lengths.push(held as i64);
        Ok(())
    };
    each_step(bytes, list, each)?;
    if matches!(target, Target::Nested { .. } | Target::NestedTexts { .. }) {
        gathered.rows.push(steps);
    } else {
        gathered.lengths.clear();
        gathered.rows.push(total as i64);
    }
    Ok(())
}

/// Stores the values of one step and returns how many there are; `room` is how many there may be.
#[inline]
fn step(bytes: &[u8], found: &Found, target: &Target, room: usize, gathered: &mut Gathered) -> Result<usize, Fault> {
    let (expected, dtype, text) = match *target {
        Target::Steps { dtype, values } => (Some(values), Some(dtype), false),
        Target::StepTexts { text } => (Some(1), None, text),
        Target::Nested { dtype } => (None, Some(dtype), false),
        Target::NestedTexts { text } => (None, None, text),
        _ => return Err(Fault::Kind { found: found.kind }),
    };
    if !dtype.map_or(matches!(found.kind, Kind::None | Kind::Bytes), |dtype| found.kind.fits(dtype)) {
        return Err(Fault::Kind { found: found.kind });
    }
    let held = values::count(bytes, found)?;
    if expected.is_some_and(|expected| expected != held) {
        return Err(Fault::Count { found: held });
    }
    if held > room {
        return Err(Fault::Many { found: held, limit: room });
    }
    if let Some(dtype) = dtype {
        if let Some(out) = gathered.more(held * dtype.size()) {
            values::fill(bytes, found, dtype, out)?;
        }
        return Ok(held);
    }
    values::each_bytes(bytes, found, |part| {
        let value = &bytes[part.start..part.end];
        if text && std::str::from_utf8(value).is_err() {
            return Err(Fault::Text);
        }
        gathered.push_text(value);
        Ok(())
    })?;
    Ok(held)
}
