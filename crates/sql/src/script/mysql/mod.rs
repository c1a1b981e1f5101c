//! Translates the SQL of MySQL and MariaDB to PostgreSQL's.
//!
//! `is_mysql` recognises MySQL's files by their tables. `normalise` rewrites their quotes, comments and delimiters to
//! the standard's, byte for byte, so that all places stay the same. `declaration` translates declarations, and
//! `statement` the few forms of statements that only MySQL has. Anything else is passed on unchanged: if the parser
//! rejects it, it is skipped and reported.
//!
//! Two differences go beyond syntax. Text is case-insensitive, unless its collation ends in `_bin`, so no condition on
//! such a column tells which rows match. And a column with ON UPDATE CURRENT_TIMESTAMP is written by every UPDATE of
//! its row.

mod declaration;
mod normalise;
mod statement;

pub(super) use declaration::{declaration, declares};
pub(super) use normalise::{is_mysql, normalise};
pub(super) use statement::statement;
