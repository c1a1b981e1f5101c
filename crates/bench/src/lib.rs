//! Experiments: workload, protocol and topology in; tables and JSON out.
//!
//! * [`application`]: SQL files to a planned application.
//! * [`tpcc`]: TPC-C on an embedded cluster or on PostgreSQL, its conditions checked afterwards.
//! * [`postgres`]: a throw-away PostgreSQL server, oracle and rival.
//! * [`histories`]: how long the checkers take.
//! * [`outcome`]: what a run measured, and its JSON form.
//! * [`table`]: the same for people.
//! * [`calibrate`]: what the real code costs, for simulated servers.
//! * [`figure`]: charts, and reports that set a paper's figures beside ours.
//! * [`reproduce`]: the papers' figures, found again.

pub mod application;
pub mod calibrate;
pub mod figure;
pub mod histories;
pub mod measure;
pub mod outcome;
pub mod postgres;
pub mod reproduce;
pub mod table;
pub mod tpcc;
