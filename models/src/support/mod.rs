//! The small database of the protocols' own tests, and their words for it.

#![allow(dead_code, unreachable_pub)] // models use a part of it

#[path = "../../../crates/protocol/tests/protocol/support/describe.rs"]
pub(crate) mod describe;
#[path = "../../../crates/protocol/tests/protocol/support/fixture.rs"]
pub(crate) mod fixture;
