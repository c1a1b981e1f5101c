//! Runs of the embedded cluster, and our answers compared with PostgreSQL's.

mod answers;
mod kill;
mod oracle;
mod oracle_changes;
mod oracle_clients;
mod oracle_errors;
mod oracle_functions;
mod oracle_procedures;
mod oracle_scripts;
mod oracle_statements;
mod oracle_tpcc;
mod over_wire;
mod recorded;
mod statements;
