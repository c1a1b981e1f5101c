//! The analyser from outside: schemas as SQL, transaction types, and the plans that follow.

mod assertions;
mod brute_force;
mod examples;
mod isolation;
mod placement;
mod schema;
mod support;
mod table_2;
mod tpcc;
