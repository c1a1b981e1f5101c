//! Middlewares over PostgreSQL databases: their ring, and the clients that they serve.

mod clients;
mod ring;
mod world;
