//! The front ends from outside: programs in, and the transactions that are found in them.

mod absence;
mod alternatives;
mod applications;
mod cases;
mod damage;
mod escapes;
mod implicit;
mod implicit_calls;
mod mappers;
mod migrations;
mod objects;
mod pools;
mod summary_cache;
mod support;
mod unknown;
