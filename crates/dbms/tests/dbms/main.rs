//! The Conveyor Belt's part of a PostgreSQL server: what is installed, recorded, passed on and removed.

mod gather;
mod migrate;
mod replicate;
mod ring;
mod share;
mod shop;
