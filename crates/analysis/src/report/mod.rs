//! The plan, for people and for programs.

mod deferral;
pub mod json;
pub mod text;
