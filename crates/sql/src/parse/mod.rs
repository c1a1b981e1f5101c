//! Text in, declarations out.
//!
//! 1. [`lexer`] makes tokens with exact places, of a whole file at once.
//! 2. [`statements`](split) are cut at their semicolons; `BEGIN ATOMIC … END` is one.
//! 3. Data definition is parsed here ([`table`], [`data_type`], [`routine`]): `sqlparser`'s trees of
//!    it know no places, and its grammar takes in every dialect's. PL/pgSQL bodies are parsed here
//!    too ([`plpgsql`]): it has none.
//! 4. Expressions, queries, INSERT, UPDATE and DELETE are cut out as stretches of tokens and handed
//!    to `sqlparser`'s PostgreSQL dialect ([`cursor`]).
//!
//! Nothing here looks a name up: that is the catalog's part.

pub(crate) mod cursor;
pub(crate) mod data_type;
pub(crate) mod lexer;

pub use data_type::resolve_data_type;
