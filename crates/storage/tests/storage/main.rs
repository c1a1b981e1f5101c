//! The store and its log from outside: compared with naive twins, crashed at any point.

mod checkpoint;
mod log;
mod overwrites;
mod replace;
mod scenarios;
mod support;
mod twin;
mod writers;
