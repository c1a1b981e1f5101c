//! PostgreSQL's frontend/backend protocol as a pure state machine: bytes in, bytes and requests out. It has no socket,
//! no clock and no thread, and knows no SQL.

pub mod format;
