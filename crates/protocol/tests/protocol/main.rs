//! The protocols as state machines: message by message, and under seeded schedules.

mod belt;
mod certification;
mod epci;
mod guards;
mod link;
mod locking;
mod order;
mod ramp;
mod replication;
mod score;
mod support;
