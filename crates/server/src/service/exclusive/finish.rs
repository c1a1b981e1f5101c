//! Ends a transaction that has changed the schema.

use std::fmt::Display;
use std::sync::Arc;

use anabranch_engine::sequence::SequenceStarts;
use anabranch_storage::{Store, StoreSettings};
use anabranch_types::NodeId;

use super::{Changer, Refused, UndoStep};
use crate::cluster::Frontends;
use crate::data::{DataFolder, NotAdopted};
use crate::frontend::{Note, Post};
use crate::service::environment::Environment;
use crate::service::errors::error_with_hint;
use crate::service::folder;
use crate::service::memory::MemoryWatch;
use crate::service::nodes::{self, Keeping, Nodes, NodesLeft, Past};

impl Changer {
    /// Commits or rolls back, and lets all others go on. After an error the transaction is rolled back.
    pub(super) fn finish(&mut self, commits: bool) -> Result<(), Refused> {
        let done = match commits {
            true => self.commit(),
            false => self.roll_back(),
        };
        self.exclusive = None;
        self.shared.set_exclusive(None);
        self.open_gate();
        done
    }

    /// Lets all others go on.
    pub(super) fn open_gate(&self) {
        self.shared.gate.open();
        for node in 0..self.environment.nodes() as u16 {
            self.shared.post.post(NodeId(node), Note::Opened);
        }
    }

    fn commit(&mut self) -> Result<(), Refused> {
        let exclusive = self.exclusive()?;
        exclusive.undo.clear();
        let environment = Arc::clone(&exclusive.environment);
        let has_nodes = exclusive.has_nodes;
        if self.data.is_none() && !has_nodes {
            return Ok(());
        }
        let NodesLeft {
            stores,
            past,
            frontends,
        } = self.stop_nodes()?;
        let Some(data) = self.data.clone() else {
            self.shared.set_current(Some(Arc::clone(&environment)));
            self.environment = Arc::clone(&environment);
            // Sequences have to pass the keys that the transaction has given.
            let started = nodes::start(&environment, stores, &Keeping::Memory, Some(past));
            let started = started.map_err(|failure| Refused::fatal(&failure))?;
            return self.run_lasting(started, frontends);
        };
        match write_generation(&data, &environment, stores, past.clone()) {
            Ok((nodes, data)) => {
                self.data = Some(data);
                self.shared.set_current(Some(Arc::clone(&environment)));
                self.environment = environment;
                self.run_lasting(nodes, frontends)
            }
            Err(Unwritten::Unknown(failure)) => Err(Refused::fatal(&failure)),
            Err(Unwritten::Unchanged(failure)) => {
                // The sequences of the schema before have the points of the log.
                let numbers = SequenceStarts::default();
                self.reopen(&data, Past { numbers, ..past }, frontends)?;
                let message = format!("could not write the changed database: {failure}");
                let hint = "The schema and all rows are as before.";
                Err(error_with_hint("58030", message, hint).into())
            }
        }
    }

    fn roll_back(&mut self) -> Result<(), Refused> {
        let exclusive = self.exclusive()?;
        if !exclusive.has_nodes {
            return Ok(());
        }
        let steps = std::mem::take(&mut exclusive.undo);
        let NodesLeft {
            mut stores,
            mut past,
            frontends,
        } = self.stop_nodes()?;
        if let Some(data) = self.data.clone() {
            // Nothing of the transaction is there, but the numbers that it has drawn stay drawn.
            for step in steps.into_iter().rev() {
                if let UndoStep::Schema {
                    past: before,
                    sequences,
                    ..
                } = step
                {
                    past.numbers = past.numbers.taken_back(&sequences, &before.numbers);
                }
            }
            drop(stores);
            return self.reopen(&data, past, frontends);
        }
        for step in steps.into_iter().rev() {
            (_, stores, past) = self.undone(step, stores, past)?;
        }
        let environment = Arc::clone(&self.environment);
        let started = nodes::start(&environment, stores, &Keeping::Memory, Some(past));
        let started = started.map_err(|failure| Refused::fatal(&failure))?;
        self.run_lasting(started, frontends)
    }

    /// Starts nodes with what the data folder has.
    pub(super) fn reopen(
        &mut self,
        data: &DataFolder,
        past: Past,
        frontends: Frontends,
    ) -> Result<(), Refused> {
        let environment = Arc::clone(&self.environment);
        let schema = environment.planned.schema();
        let empty = || Store::new(schema, StoreSettings::default());
        let stores = (0..environment.nodes()).map(|_| empty()).collect();
        let started = nodes::start(&environment, stores, &Keeping::Folder(data), Some(past));
        let started = started.map_err(|failure| Refused::fatal(&failure))?;
        self.run_lasting(started, frontends)
    }

    /// Lets all connections go on with these nodes.
    pub(super) fn run_lasting(
        &mut self,
        nodes: Box<dyn Nodes>,
        frontends: Frontends,
    ) -> Result<(), Refused> {
        self.shared.set_exclusive(None);
        let runs = nodes.run(&self.environment.planned);
        let runs = runs.map_err(|failure| Refused::fatal(&failure))?;
        assert!(runs, "EXC-I7: a node runs another plan than sessions know");
        if let Some(data) = &self.data {
            self.shared.set_backups(Some(nodes.backups(data)));
        }
        self.run_nodes(nodes, frontends)
    }

    /// Gives connections to these nodes.
    pub(super) fn run_nodes(
        &mut self,
        mut nodes: Box<dyn Nodes>,
        frontends: Frontends,
    ) -> Result<(), Refused> {
        let watch = |max| MemoryWatch::start(max, nodes.room());
        let memory = self.environment.options.memory_max.map(watch).transpose();
        self.memory = memory.map_err(|failure| Refused::fatal(&failure))?;
        nodes.own(frontends);
        self.shared.post.connect(nodes.post());
        self.slot.put(nodes);
        Ok(())
    }
}

/// Why rows and application were not written.
pub(super) enum Unwritten {
    /// What was there before counts.
    Unchanged(String),
    /// The next start alone can find out what counts.
    Unknown(String),
}

/// Writes rows and application into a data folder, and lets them count.
///
/// # Errors
/// When the operating system refuses.
pub(super) fn write_generation(
    data: &DataFolder,
    environment: &Arc<Environment>,
    stores: Vec<Store>,
    past: Past,
) -> Result<(Box<dyn Nodes>, DataFolder), Unwritten> {
    let text = |failure: &dyn Display| failure.to_string();
    let next = data
        .next_generation()
        .map_err(|it| Unwritten::Unchanged(text(&it)))?;
    let files = &environment.planned.application.catalog().files;
    let started = folder::write_application(&next.folder(), files)
        .and_then(|()| folder::write_accepted(&next.folder(), &environment.planned))
        .map_err(|it| text(&it))
        .and_then(|()| {
            let started = nodes::start(environment, stores, &Keeping::Folder(&next), Some(past));
            started.map_err(|it| text(&it))
        });
    let nodes = match started {
        Ok(nodes) => nodes,
        Err(failure) => {
            next.discard();
            return Err(Unwritten::Unchanged(failure));
        }
    };
    let (guarantee, generation) = (environment.guarantee, next.generation());
    let description = folder::description(&environment.planned, guarantee, files, generation);
    let NotAdopted { error, rejected } = match next.adopt(&description) {
        Ok(adopted) => return Ok((nodes, adopted)),
        Err(failure) => failure,
    };
    let stopped = nodes.stop().err().map(|it| format!("; {it}"));
    let failure = format!("{error}{}", stopped.unwrap_or_default());
    Err(match rejected {
        Some(next) => {
            next.discard();
            Unwritten::Unchanged(failure)
        }
        None => Unwritten::Unknown(format!(
            "{failure}; it was being changed, and only a start can find out whether the change counts: start the server again"
        )),
    })
}
