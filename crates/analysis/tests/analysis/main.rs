//! The analyser from outside: schemas as SQL, transaction types, and the plans that follow.

mod alone;
mod anything;
mod assertions;
mod attacked_proofs;
mod brute_force;
mod conveyor;
mod counterexamples;
mod covered;
mod examples;
mod found;
mod invalid_merges;
mod isolation;
mod minimal;
mod nested_keys;
mod partition;
mod placement;
mod proofs;
mod repairs;
mod rsiw;
mod schema;
mod solver;
mod soundness;
mod support;
mod table_2;
mod table_2_sql;
mod tpcc;
