//! PostgreSQL's frontend/backend protocol as a pure state machine: bytes in, bytes and requests out. It has no socket,
//! no clock and no thread, and knows no SQL.
//!
//! A [`Connection`] is the server's end of one client's connection.
//!
//! 1. [`Connection::receive`] takes what the socket gave, however it was cut.
//! 2. [`Connection::next_request`] cuts out one message (`frame`), holds its size, counts and inner lengths against
//!    its frame (`decode`), and gives it as a [`Request`]. A message that breaks a rule is answered here.
//! 3. The owner answers through the other methods of [`Connection`], which append to its [output](Connection::output)
//!    (`encode`).
//!
//! The machine knows the protocol's state: what may come before the client is let in, which messages are skipped up to
//! the next Sync after an error. It knows no statement: prepared statements and portals are the owner's, kept in
//! [`Names`].
//!
//! The codec is our own, over borrowed frames: of the frontend's messages there are few, and each of their lengths has
//! to be checked here in any case. `pgwire`'s codec, with which tests compare it, would do the decoding twice: it
//! hands the whole receive buffer to the decoder of one message, trusts inner counts and lengths, and copies each text.
//!
//! [`format`] has the values in messages: type OIDs, text and binary form.

mod connection;
mod decode;
mod encode;
mod error_fields;
pub mod format;
mod frame;
mod key;
mod names;
mod request;

pub use connection::{Connection, Limits, TransactionStatus};
pub use encode::{DataRow, Field};
pub use error_fields::{ErrorFields, Severity};
pub use format::Format;
pub use key::BackendKey;
pub use names::{NameError, Names};
pub use request::{Formats, Request, Startup, Target};
