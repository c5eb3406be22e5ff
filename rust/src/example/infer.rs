//! Which features records have.

use std::collections::BTreeMap;

use super::fault::Fault;
use super::feature::{Found, Kind, entries, feature};
use super::rows::body;
use super::values;
use crate::columns::{Records, RowFailure};

/// What is known of one feature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// What it holds; `None` if no record holds anything.
    pub kind: Kind,
    /// Whether some records hold another kind.
    pub mixed: bool,
    /// Records that hold a list, even an empty one.
    pub present: usize,
    /// The smallest number of values in a record that holds the feature.
    pub least: usize,
    /// The largest.
    pub most: usize,
}

/// The features of records, by name.
///
/// # Errors
/// The first record that is damaged or not an Example.
pub fn infer(records: Records<'_>, verify: bool) -> Result<BTreeMap<String, Summary>, RowFailure> {
    let mut features = BTreeMap::new();
    for row in 0..records.which.len() {
        add(records, row, verify, &mut features).map_err(|fault| {
            let start = usize::try_from(records.offset[row]).unwrap_or(0);
            let (found, remedy) = fault.describe(None, "", start);
            RowFailure { row, found, remedy }
        })?;
    }
    Ok(features)
}

fn add(records: Records<'_>, row: usize, verify: bool, features: &mut BTreeMap<String, Summary>) -> Result<(), Fault> {
    let (bytes, body) = body(records, row, verify)?;
    // Of duplicate keys the last counts.
    let mut last: BTreeMap<&str, Found> = BTreeMap::new();
    entries(bytes, body, |key, value| {
        let name = std::str::from_utf8(&bytes[key.start..key.end])
            .map_err(|_| Fault::Wire { at: key.start, what: "a feature's name is not UTF-8" })?;
        last.insert(name, feature(bytes, value)?);
        Ok(())
    })?;
    for (name, found) in last {
        let count = values::count(bytes, &found)?;
        match features.get_mut(name) {
            Some(summary) => summary.add(&found, count),
            None => {
                let mut summary = Summary { kind: Kind::None, mixed: false, present: 0, least: usize::MAX, most: 0 };
                summary.add(&found, count);
                features.insert(name.to_owned(), summary);
            }
        }
    }
    Ok(())
}

impl Summary {
    fn add(&mut self, found: &Found, count: usize) {
        if found.kind == Kind::None {
            return;
        }
        self.mixed |= self.kind != Kind::None && self.kind != found.kind;
        if self.kind == Kind::None {
            self.kind = found.kind;
        }
        self.present += 1;
        self.least = self.least.min(count);
        self.most = self.most.max(count);
    }
}
