//! The analyser from outside: schemas as SQL, transaction types, and the plans that follow.

mod alone;
mod assertions;
mod brute_force;
mod conveyor;
mod counterexamples;
mod examples;
mod found;
mod isolation;
mod partition;
mod placement;
mod repairs;
mod rsiw;
mod schema;
mod soundness;
mod support;
mod table_2;
mod table_2_sql;
mod tpcc;
