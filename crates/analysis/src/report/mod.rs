//! Reports of a plan: text and an HTML page for people, JSON, SARIF and GitHub annotations for programs.

pub mod coordination;
pub mod counterexample;
mod deferral;
pub mod findings;
pub mod github;
mod graph;
pub mod html;
pub mod json;
pub mod layout;
pub mod names;
mod not_analysed;
mod notes;
pub mod partition;
pub mod probable;
pub mod repairs;
pub mod sarif;
pub mod sessions;
pub mod skipped;
pub mod text;
pub mod two_sessions;
