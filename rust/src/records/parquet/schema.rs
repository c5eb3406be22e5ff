//! The tree of a file's columns: which are leaves, and how each is written.

use super::compact::{Fault, Reader};

/// Elements nest no deeper.
const DEEPEST: usize = 64;

/// An element of the schema, with its place in the footer.
#[derive(Debug, Default)]
pub struct Element {
    /// Its first byte, and the one behind its last.
    pub span: (usize, usize),
    /// The same of its number of children, where it has some.
    pub children_span: Option<(usize, usize)>,
    name: String,
    kind: Option<i64>,
    repeated: bool,
    children: usize,
}

impl Element {
    pub fn read(reader: &mut Reader<'_>) -> Result<Self, Fault> {
        let mut found = Self { span: (reader.at(), 0), ..Self::default() };
        reader.fields(|reader, number, kind| {
            match number {
                1 => found.kind = Some(reader.number(kind)?),
                3 => found.repeated = reader.number(kind)? == 2,
                4 => {
                    let name = reader.bytes(kind)?;
                    found.name = str::from_utf8(name).map_err(|_| reader.fault("a name that is no text"))?.to_owned();
                }
                5 => {
                    let begin = reader.at();
                    let children = reader.number(kind)?;
                    found.children =
                        usize::try_from(children).map_err(|_| reader.fault("a negative number of children"))?;
                    found.children_span = Some((begin, reader.at()));
                }
                _ => reader.skip(kind)?,
            }
            Ok(())
        })?;
        found.span.1 = reader.at();
        Ok(found)
    }
}

/// A column that has values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// The names that lead to it.
    pub path: Vec<String>,
    /// Its number among the leaves of the file.
    pub column: usize,
    /// Parquet's number of its type.
    pub kind: i64,
    /// Whether a row may have another number of values than one.
    pub repeated: bool,
    /// The schema's elements that lead to it, the root not among them.
    pub elements: Vec<usize>,
}

/// The leaves below columns or fields of these names, and how many leaves the file has.
pub fn leaves(schema: &[Element], wanted: &[Vec<String>]) -> Option<(Vec<Leaf>, usize)> {
    let mut open = vec![(0, schema.first()?.children)];
    let (mut found, mut columns) = (Vec::new(), 0);
    for (number, element) in schema.iter().enumerate().skip(1) {
        while let Some((_, 0)) = open.last() {
            open.pop();
        }
        open.last_mut()?.1 -= 1;
        if element.children > 0 {
            if open.len() >= DEEPEST {
                return None;
            }
            open.push((number, element.children));
            continue;
        }
        let above = open.iter().skip(1).map(|&(number, _)| number);
        let path: Vec<_> = above.clone().chain([number]).map(|number| schema[number].name.as_str()).collect();
        if wanted.iter().any(|names| path.len() >= names.len() && names.iter().zip(&path).all(|(a, b)| a == b)) {
            found.push(Leaf {
                path: path.into_iter().map(str::to_owned).collect(),
                column: columns,
                kind: element.kind?,
                repeated: above.clone().chain([number]).any(|number| schema[number].repeated),
                elements: above.chain([number]).collect(),
            });
        }
        columns += 1;
    }
    open.iter().all(|&(_, left)| left == 0).then_some((found, columns))
}
