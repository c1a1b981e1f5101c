//! The plan, for people and for programs.

pub mod counterexample;
mod deferral;
pub mod findings;
pub mod github;
mod graph;
pub mod html;
pub mod json;
pub mod left_out;
mod not_understood;
mod notes;
pub mod partition;
pub mod probable;
pub mod repairs;
pub mod sarif;
pub mod sessions;
pub mod text;
