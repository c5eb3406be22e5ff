//! Which features records have.

use std::collections::BTreeMap;

use super::fault::Fault;
use super::feature::{FEATURE_LISTS, FEATURES, Found, each_step, entries, feature};
use super::kind::Kind;
use super::rows::body;
use super::values;
use super::wire::Part;
use crate::core::columns::Records;
use crate::core::errors::RowFailure;

/// What is known of one feature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// What it holds; `None` if no record holds anything.
    pub kind: Kind,
    /// Whether some records hold another kind.
    pub mixed: bool,
    /// Records (of a list of features: steps) that hold a list of values, even an empty one.
    pub present: usize,
    /// The smallest number of values in one of them.
    pub least: usize,
    /// The largest.
    pub most: usize,
}

/// What is known of all features, by name.
#[derive(Debug, Default)]
pub struct Features {
    /// The features of an Example, or of a SequenceExample's context.
    pub plain: BTreeMap<String, Summary>,
    /// The lists of features of a SequenceExample.
    pub lists: BTreeMap<String, Summary>,
}

/// The features of records.
///
/// # Errors
/// The first record that is damaged or not an Example.
pub fn infer(records: Records<'_>, verify: bool) -> Result<Features, RowFailure> {
    let mut features = Features::default();
    for row in 0..records.which.len() {
        add(records, row, verify, &mut features).map_err(|fault| {
            let start = usize::try_from(records.offset[row]).unwrap_or(0);
            let (found, remedy) = fault.describe(None, "", start);
            RowFailure { row, found, remedy }
        })?;
    }
    Ok(features)
}

fn add(records: Records<'_>, row: usize, verify: bool, features: &mut Features) -> Result<(), Fault> {
    let (bytes, body) = body(records, row, verify)?;
    for (name, value) in last_entries::<FEATURES>(bytes, body)? {
        let found = feature(bytes, value)?;
        summary(&mut features.plain, name).add(&found, values::count(bytes, &found)?);
    }
    for (name, list) in last_entries::<FEATURE_LISTS>(bytes, body)? {
        let summary = summary(&mut features.lists, name);
        each_step(bytes, list, |found| {
            summary.add(found, values::count(bytes, found)?);
            Ok(())
        })?;
    }
    Ok(())
}

/// The entries of a map; of duplicate keys the last counts.
fn last_entries<const FIELD: u64>(bytes: &[u8], body: Part) -> Result<BTreeMap<&str, Part>, Fault> {
    let mut last = BTreeMap::new();
    entries::<FIELD>(bytes, body, |key, value| {
        let name = std::str::from_utf8(&bytes[key.start..key.end])
            .map_err(|_| Fault::Wire { at: key.start, what: "a feature's name is not UTF-8" })?;
        last.insert(name, value);
        Ok(())
    })?;
    Ok(last)
}

fn summary<'a>(all: &'a mut BTreeMap<String, Summary>, name: &str) -> &'a mut Summary {
    if !all.contains_key(name) {
        let nothing = Summary { kind: Kind::None, mixed: false, present: 0, least: usize::MAX, most: 0 };
        all.insert(name.to_owned(), nothing);
    }
    all.get_mut(name).unwrap_or_else(|| unreachable!("it was inserted"))
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
