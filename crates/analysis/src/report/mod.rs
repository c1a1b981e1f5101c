//! The plan, for people and for programs.

pub mod counterexample;
mod deferral;
pub mod findings;
pub mod github;
pub mod json;
pub mod sarif;
pub mod text;
