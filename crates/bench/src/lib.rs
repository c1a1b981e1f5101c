//! Experiments: workload, protocol and topology in; tables and JSON out.
//!
//! * [`application`]: SQL files to a planned application.
//! * [`experiment`], [`embedded`]: what an experiment is, and how it is run on the embedded cluster.
//! * [`fill`], [`conditions`], [`recorded`]: what comes before, what is looked at after, what is kept.
//! * [`tpcc`]: TPC-C there, or on PostgreSQL.
//! * [`ycsb`]: YCSB there.
//! * [`postgres`]: a throw-away PostgreSQL server, oracle and rival.
//! * [`histories`]: how long the checkers take.
//! * [`outcome`]: what a run measured, and its JSON form.
//! * [`table`]: the same for people.
//! * [`calibrate`]: what the real code costs, for simulated servers.
//! * [`figure`]: charts, and reports that set a paper's figures beside ours.
//! * [`reproduce`]: the papers' figures, found again.

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
pub mod postgres;
pub mod recorded;
pub mod reproduce;
pub mod table;
pub mod tpcc;
pub mod ycsb;
