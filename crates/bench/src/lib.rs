//! Experiments: workload, protocol and topology in; tables and JSON out.
//!
//! * [`application`]: turns SQL files into a planned application.
//! * [`experiment`], [`embedded`]: what an experiment is, and how it runs on the embedded cluster.
//! * [`fill`], [`conditions`], [`recorded`]: the initial database, the checks after a run, its history.
//! * [`tpcc`], [`ycsb`]: the two workloads as experiments; TPC-C runs on PostgreSQL, too.
//! * [`postgres`]: a throw-away PostgreSQL server, for comparison and as an oracle in tests.
//! * [`over_wire`]: histories of transactions that clients run on a server.
//! * [`histories`], [`applications`]: how long the checkers and the analyser take.
//! * [`measure`], [`outcome`], [`table`]: what a run measures, as JSON and as a table.
//! * [`calibrate`]: measures what the real code costs, for simulated servers.
//! * [`figure`]: charts, and reports that set a paper's figures beside ours.
//! * [`sites`]: sites with all of the data on simulated servers.
//! * [`reproduce`]: reproduces the papers' figures.

pub mod application;
pub mod applications;
pub mod calibrate;
pub mod conditions;
pub mod embedded;
pub mod experiment;
pub mod figure;
pub mod fill;
pub mod histories;
pub mod measure;
pub mod outcome;
pub mod over_wire;
pub mod pgbench;
pub mod postgres;
pub mod recorded;
pub mod reproduce;
pub mod sites;
pub mod table;
pub mod tpcc;
pub mod ycsb;
