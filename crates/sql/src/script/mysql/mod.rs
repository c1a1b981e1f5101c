//! MySQL's and MariaDB's SQL, as PostgreSQL's.
//!
//! Whether files are MySQL's is seen by their tables (`speaks`). Then their quotes, comments and delimiters are made
//! the standard's, byte for byte (`plain`), so that every place stays where it was; what they declare is told in
//! PostgreSQL's words (`declaration`), and so are the few forms of statements that only MySQL has
//! (`statement`). What is not known is handed on as it is: the parser refuses it, and it is left out and told.
//!
//! Two things go beyond words. Text is compared without regard to case, unless its collation ends in `_bin`: so a
//! condition on such a column tells nothing of which rows it meets. And a column with ON UPDATE
//! CURRENT_TIMESTAMP is written by every UPDATE of its row.

mod declaration;
mod normalise;
mod statement;

pub(super) use declaration::{declaration, declares};
pub(super) use normalise::{is_mysql, plain};
pub(super) use statement::statement;
