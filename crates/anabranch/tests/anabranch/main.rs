//! The program from outside: its commands, its servers, and what it does to a live PostgreSQL.

mod belt;
mod belt_migrate;
mod cli;
mod embedded;
mod live_dump;
mod live_postgres;
mod live_sessions;
#[cfg(feature = "tls")]
mod live_tls;
