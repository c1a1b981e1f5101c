//! PostgreSQL's frontend/backend protocol as a pure state machine: bytes in, bytes and requests out. It has no socket,
//! no clock and no thread, and knows no SQL.
//!
//! A [`Connection`] is the server's end of one client's connection.
//!
//! 1. [`Connection::receive`] takes what the socket gave, however it was cut.
//! 2. [`Connection::next_request`] cuts out one message, holds its size against the limit of the connection's state, and
//!    its counts and inner lengths against its frame (`decode`, `startup`), and gives it as a [`Request`]. A message that
//!    breaks a rule is answered here.
//! 3. The owner answers through the other methods of [`Connection`], which append to its [output](Connection::output)
//!    (`encode`).
//!
//! The machine knows the protocol's state: what may come before the client is let in, which answer belongs to which
//! request, which messages are skipped up to the next Sync. It knows no statement: prepared statements and portals are
//! the owner's, kept in [`Names`].
//!
//! # An own codec
//!
//! The codec is our own, over borrowed frames; `pgwire` 0.42.1 is what tests compare it with. `pgwire` has all messages
//! and no runtime, but its decoder of a message is handed the whole receive buffer and trusts inner counts and lengths
//! (`Parse`, `Bind`, `Execute`): a short message panics, a long one eats the next. It replaces what is not UTF-8, and
//! reads a text whose end is missing as an empty one, so that errors which PostgreSQL reports are lost. A check in front
//! would have to walk through every count, length and text of a frame, which is all that decoding is. It also copies
//! each text, and a row's values once more. A frontend has few messages, so this crate decodes them from the frame, and
//! writes the backend's messages straight into the output.
//!
//! # What is not here
//!
//! TLS and passwords: requests for encryption are answered `N`. COPY: its messages are ignored, as PostgreSQL ignores
//! them outside of COPY. FunctionCall is refused (0A000).
//!
//! [`relay`] is for a process between clients and servers.
//!
//! [`mod@format`] has the values in messages: type OIDs, text and binary form.

mod body;
mod connection;
pub mod copy;
mod decode;
mod encode;
mod error_fields;
pub mod format;
mod key;
mod names;
pub mod relay;
mod request;
mod startup;

pub use connection::{Connection, Limits, TransactionStatus};
pub use encode::{DataRow, Field};
pub use error_fields::{ErrorFields, Severity};
pub use format::Format;
pub use key::BackendKey;
pub use names::{NameError, Names};
pub use request::{Formats, Request, Startup, Target};

/// The longest text in an error, a notice, a tag, a name or a setting, in bytes; the rest is cut off. libpq takes most
/// messages of more than 30,000 bytes for a lost connection.
pub const TEXT_BYTES_MAX: usize = 8_192;
