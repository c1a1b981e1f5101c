//! What a message costs between two processes: a socket and a codec.
//!
//! The house has no wire yet: nodes are threads that hand each other messages in memory. So that
//! simulated servers do not talk for nothing, this measures what a plain wire would take: a client's
//! New-Order, and one effect of it as nodes tell it each other, encoded by `postcard`, through a TCP
//! connection of this machine, several with each call of the system, as a server under load sends and
//! receives them.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use anabranch_types::{Effect, Value};
use anabranch_workload::tpcc::{CallGenerator, Distribution, Mix, Scale};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::meter::{lower_quartile, now};
use super::{CalibrationError, Effort};

/// What sending or receiving a message costs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transport {
    /// Between nodes.
    pub message: Frame,
    /// Between a client and a node.
    pub client: Frame,
    /// Messages that one call of the system writes or reads.
    pub batch: u64,
}

/// One kind of message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Frame {
    /// Nanoseconds to write one to a socket, or to read it from there.
    pub socket_nanos: f64,
    /// Nanoseconds to encode one, or to decode it.
    pub codec_nanos: f64,
    /// Its size.
    pub bytes: u64,
}

/// Messages a call of the system.
const BATCH: usize = 8;

impl Frame {
    /// Nanoseconds to send or to receive one.
    pub fn nanos(&self) -> f64 {
        self.socket_nanos + self.codec_nanos
    }
}

/// `effects` are what New-Orders do to single rows.
pub(super) fn measure(effort: Effort, effects: &[Effect]) -> Result<Transport, CalibrationError> {
    Ok(Transport {
        message: frame(effort, effects)?,
        client: frame(effort, &calls())?,
        batch: BATCH as u64,
    })
}

fn frame<M: Serialize + DeserializeOwned>(
    effort: Effort,
    messages: &[M],
) -> Result<Frame, CalibrationError> {
    let rounds = effort.rounds;
    let times = if effort.full_size { 200 } else { 10 };
    let mut sockets = Vec::new();
    let mut codecs = Vec::new();
    let mut frames = Vec::new();
    for _ in 0..rounds {
        let (nanos, encoded) = codec(messages, times)?;
        codecs.push(nanos);
        frames = encoded;
        sockets.push(socket(&frames, times).map_err(CalibrationError::Socket)?);
    }
    let bytes: usize = frames.iter().map(Vec::len).sum();
    Ok(Frame {
        socket_nanos: lower_quartile(sockets).round(),
        codec_nanos: lower_quartile(codecs).round(),
        bytes: (bytes / frames.len().max(1)) as u64,
    })
}

/// The arguments of New-Orders: what a client sends.
fn calls() -> Vec<Vec<Value>> {
    let scale = Scale::specified(2);
    let mut calls = CallGenerator::new(
        scale,
        Mix::NEW_ORDER,
        Distribution::Specified,
        vec![0, 1],
        1,
    );
    let calls = (0..BATCH * 32).map(|_| calls.next_call().arguments.to_vec());
    calls.collect()
}

/// Nanoseconds of encoding or decoding a message, and all of them encoded.
fn codec<M: Serialize + DeserializeOwned>(
    messages: &[M],
    times: usize,
) -> Result<(f64, Vec<Vec<u8>>), CalibrationError> {
    let wrong = |error: postcard::Error| CalibrationError::Codec(error.to_string());
    let mut frames = Vec::new();
    let began = now();
    for _ in 0..times {
        frames.clear();
        for message in messages {
            frames.push(postcard::to_allocvec(message).map_err(wrong)?);
        }
        for frame in &frames {
            let decoded: M = postcard::from_bytes(frame).map_err(wrong)?;
            std::hint::black_box(&decoded);
        }
    }
    let both = (now() - began) as f64 / (times * messages.len()) as f64;
    Ok((both / 2.0, frames))
}

/// Nanoseconds of writing a message to a socket, or of reading it.
fn socket(frames: &[Vec<u8>], times: usize) -> std::io::Result<f64> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let mut sender = TcpStream::connect(listener.local_addr()?)?;
    let (mut receiver, _) = listener.accept()?;
    sender.set_nodelay(true)?;
    let batches: Vec<Vec<u8>> = frames.chunks(BATCH).map(|batch| batch.concat()).collect();
    let largest = batches.iter().map(Vec::len).max().unwrap_or_default();
    let mut buffer = vec![0; largest];
    let began = now();
    for _ in 0..times {
        for batch in &batches {
            sender.write_all(batch)?;
            receiver.read_exact(&mut buffer[..batch.len()])?;
        }
    }
    Ok((now() - began) as f64 / (times * frames.len()) as f64 / 2.0)
}
