//! Space-time diagrams of a window of a run.

use anabranch_types::Ticks;

/// Looks on while a run goes, for a diagram.
#[derive(Clone, Debug, Default)]
pub struct Recorder {}

impl Recorder {
    pub(crate) fn sent(&mut self, _from: u16, _to: u16, _at: Ticks, _label: String) {}
    pub(crate) fn received(&mut self, _from: u16, _to: u16, _at: Ticks) {}
    pub(crate) fn called(&mut self, _node: u16, _at: Ticks, _id: u64) {}
    pub(crate) fn answered(&mut self, _node: u16, _at: Ticks, _id: u64) {}
}
