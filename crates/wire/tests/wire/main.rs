//! PostgreSQL's protocol: transcripts, delivery in pieces, comparison with another codec, hostile input.

mod backend;
mod conversations;
mod copy;
mod delivery;
mod frontend;
mod hostile;
mod hostile_input;
mod pgwire_codec;
mod script;
mod session;
mod transcripts;
mod values;
