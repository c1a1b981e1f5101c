//! Measures what a message costs between two processes: a socket and a codec.
//!
//! The embedded cluster passes messages between threads in memory. So that messages of simulated servers have a
//! cost, this measures a plain network transport: a client's New-Order, and one effect of it as nodes send it,
//! encoded by `postcard`, over a TCP connection of this machine. Each system call takes several messages, as
//! those of a server under load do.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use anabranch_types::{Effect, Value};
use anabranch_workload::tpcc::{CallGenerator, Distribution, Mix, Scale};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::meter::{lower_quartile, now};
use super::{CalibrationError, Effort};

/// The costs of sending or receiving a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transport {
    /// Between nodes.
    pub message: Frame,
    /// Between a client and a node.
    pub client: Frame,
    /// Messages that one system call writes or reads.
    pub batch: u64,
}

/// One kind of message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Frame {
    /// Nanoseconds to write one to a socket, or to read one from it.
    pub socket_nanos: f64,
    /// Nanoseconds to encode one, or to decode one.
    pub codec_nanos: f64,
    /// Its size in bytes.
    pub bytes: u64,
}

/// Messages for each system call.
const BATCH: usize = 8;

impl Frame {
    /// Nanoseconds to send or to receive one.
    pub fn nanos(&self) -> f64 {
        self.socket_nanos + self.codec_nanos
    }
}

/// Measures transport in rounds that are spread over time, as the machine's speed changes.
pub(super) struct Rounds {
    /// Effects of New-Orders on single rows.
    effects: Vec<Effect>,
    calls: Vec<Vec<Value>>,
    message: Samples,
    client: Samples,
    /// How often a round repeats all messages.
    times: usize,
}

#[derive(Default)]
struct Samples {
    sockets: Vec<f64>,
    codecs: Vec<f64>,
    bytes: u64,
}

impl Rounds {
    pub(super) fn new(effort: Effort, effects: Vec<Effect>) -> Rounds {
        Rounds {
            effects,
            calls: calls(),
            message: Samples::default(),
            client: Samples::default(),
            times: if effort.full_size { 40 } else { 5 },
        }
    }

    /// Measures one round.
    pub(super) fn measure(&mut self) -> Result<(), CalibrationError> {
        self.message.add(&self.effects, self.times)?;
        self.client.add(&self.calls, self.times)
    }

    /// The result of all rounds.
    pub(super) fn sum(self) -> Transport {
        Transport {
            message: self.message.sum(),
            client: self.client.sum(),
            batch: BATCH as u64,
        }
    }
}

impl Samples {
    fn add<M: Serialize + DeserializeOwned>(
        &mut self,
        messages: &[M],
        times: usize,
    ) -> Result<(), CalibrationError> {
        let (nanos, batches) = codec(messages, times)?;
        self.codecs.push(nanos);
        let bytes: usize = batches.iter().map(Vec::len).sum();
        self.bytes = (bytes / messages.len().max(1)) as u64;
        let calls = socket(&batches, times).map_err(CalibrationError::Socket)?;
        self.sockets
            .push(calls * batches.len() as f64 / messages.len() as f64);
        Ok(())
    }

    fn sum(self) -> Frame {
        Frame {
            socket_nanos: lower_quartile(self.sockets).round(),
            codec_nanos: lower_quartile(self.codecs).round(),
            bytes: self.bytes,
        }
    }
}

/// The arguments of New-Orders, which a client sends.
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

/// Nanoseconds of encoding or decoding a message, and the encoded messages in batches.
fn codec<M: Serialize + DeserializeOwned>(
    messages: &[M],
    times: usize,
) -> Result<(f64, Vec<Vec<u8>>), CalibrationError> {
    let wrong = |error: postcard::Error| CalibrationError::Codec(error.to_string());
    let mut batches = vec![Vec::new(); messages.len().div_ceil(BATCH)];
    let began = now();
    for _ in 0..times {
        for (batch, messages) in batches.iter_mut().zip(messages.chunks(BATCH)) {
            // As a connection does: into a buffer that is kept, and from it.
            batch.clear();
            for message in messages {
                *batch = postcard::to_extend(message, std::mem::take(batch)).map_err(wrong)?;
            }
            let mut rest = batch.as_slice();
            for _ in messages {
                let (decoded, after) = postcard::take_from_bytes::<M>(rest).map_err(wrong)?;
                std::hint::black_box(&decoded);
                rest = after;
            }
        }
    }
    let both = (now() - began) as f64 / (times * messages.len()) as f64;
    Ok((both / 2.0, batches))
}

/// Nanoseconds of writing a batch to a socket, or of reading one from it.
fn socket(batches: &[Vec<u8>], times: usize) -> std::io::Result<f64> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let mut sender = TcpStream::connect(listener.local_addr()?)?;
    let (mut receiver, _) = listener.accept()?;
    sender.set_nodelay(true)?;
    let largest = batches.iter().map(Vec::len).max().unwrap_or_default();
    let mut buffer = vec![0; largest];
    let began = now();
    for _ in 0..times {
        for batch in batches {
            sender.write_all(batch)?;
            receiver.read_exact(&mut buffer[..batch.len()])?;
        }
    }
    Ok((now() - began) as f64 / (times * batches.len()) as f64 / 2.0)
}
