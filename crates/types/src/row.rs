//! Rows as compact bytes, decoded a column at a time.

use std::sync::Arc;

/// An encoded row. Cloning shares the bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row(Arc<[u8]>);

/// How the rows of a table are laid out, derived from the types of its columns.
#[derive(Clone, Debug, Default)]
pub struct RowLayout {}
