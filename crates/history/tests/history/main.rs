//! The checkers: histories by hand, made-up ones, those of papers and those of other tools.

mod format;
mod generated;
mod jepsen;
mod papers;
mod phenomena;
mod sessions_and_scans;
mod support;
