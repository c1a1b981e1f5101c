//! Applications in SQL over one node and over several, under each protocol.

mod apart;
mod assertions;
mod belt;
mod cancel;
mod checkpoints;
mod deferral;
mod epochs;
mod interactive;
mod limits;
mod mixed;
mod nodes;
mod numbers;
mod over_guards;
mod pauses;
mod provisional;
mod replicas;
mod room;
mod sequences;
mod support;
mod undeclared;
