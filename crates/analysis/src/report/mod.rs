//! The plan, for people and for programs.

pub mod counterexample;
mod deferral;
pub mod json;
pub mod text;
