//! What Parquet files say of themselves: the footer, the page index, the headers of pages; and the footer of a small file made of some
//! of their pages. Values are never decoded here.
//!
//! The structs are those of <https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift>.

pub mod compact;
pub mod footer;
pub mod page_header;
pub mod page_index;
pub mod rewrite;
mod schema;
#[cfg(test)]
mod tests;

pub use compact::Fault;
pub use schema::Leaf;
