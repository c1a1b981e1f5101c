//! The server and the embedded cluster from outside: real threads, clocks, sockets and disks.

mod cluster;
mod generated;
mod hostile_statements;
mod migrations;
mod open_transactions;
mod plans;
mod queues;
mod schema;
mod sequences;
mod service;
mod support;
mod transactions;
mod triggers;
