//! A workload, compiled and planned, and its initial rows: what many runs share.

use std::sync::Arc;

use anabranch_analysis::{Guarantee, Plan, Topology as Shape, analyze};
use anabranch_engine::PlannedApplication;
use anabranch_engine::load::Loader;
use anabranch_engine::routing::Target;
use anabranch_protocol::guards::GuardHomes;
use anabranch_sql::application::Application;
use anabranch_sql::diagnostic;
use anabranch_sql::source::SourceFile;
use anabranch_storage::{Store, StoreSettings};
use anabranch_types::row::RowBuilder;
use anabranch_types::{PartitionId, Ticks, Value};
use anabranch_workload::{Workload, by_name};

use crate::error::CaseError;
use crate::homes::Homes;
use crate::latency::Network;
use crate::protocols::ProtocolName;

/// The most nodes a simulated cluster may have.
pub const NODES_MAX: u16 = 500;

/// Overwritten versions are retained for at least so many longest median latencies.
const LATENCIES_RETAINED: u64 = 40;

/// In runs without faults they are retained for at least this long.
const RETENTION_MIN_CALM: Ticks = Ticks::from_millis(20);

/// A workload's application, compiled and planned for a number of nodes.
pub struct Prepared {
    /// The workload.
    pub workload: Arc<dyn Workload>,
    /// Its application, planned.
    pub planned: Arc<PlannedApplication>,
    /// The number of nodes that it is planned for.
    pub nodes: u16,
    pub(crate) procedures: Vec<usize>,
    /// Where transactions are ordered over guards: the homes of these.
    pub(crate) homes: Option<Arc<Homes>>,
}

impl Prepared {
    /// The homes of guards, where transactions are ordered over these.
    pub(crate) fn homes(&self) -> Option<Arc<dyn GuardHomes>> {
        let homes = self.homes.clone()?;
        Some(homes)
    }

    /// Refuses a plan with guards under a protocol that has none, before the protocol refuses each call.
    pub(crate) fn check_guards(&self, protocol: ProtocolName) -> Result<(), CaseError> {
        match self.planned.plan.guarded() {
            Some(entry) if !protocol.takes_guards() => Err(CaseError::Guards {
                protocol: protocol.name(),
                procedure: entry.name.clone(),
            }),
            _ => Ok(()),
        }
    }

    /// Loads, compiles and plans a workload for a cluster of `nodes`.
    ///
    /// # Errors
    /// If there is no such workload, or its SQL does not compile.
    pub fn new(workload: &str, nodes: u16) -> Result<Prepared, CaseError> {
        if !(1..=NODES_MAX).contains(&nodes) {
            return Err(CaseError::OutOfRange {
                what: "nodes",
                permitted: format!("between 1 and {NODES_MAX}"),
            });
        }
        let found = by_name(workload, nodes);
        let workload = found.ok_or_else(|| CaseError::NoWorkload(workload.to_owned()))?;
        Prepared::from_workload(workload, nodes)
    }

    /// Loads, compiles and plans a workload for `sites`, each with all of the data: as much data as for so many nodes.
    ///
    /// # Errors
    /// If there is no such workload, or its SQL does not compile.
    pub fn for_sites(workload: &str, sites: u16) -> Result<Prepared, CaseError> {
        let found = by_name(workload, sites);
        let workload = found.ok_or_else(|| CaseError::NoWorkload(workload.to_owned()))?;
        Prepared::from_workload(workload, 1)
    }

    /// The same for a ring of servers, with a plan that has an operation partitioning.
    ///
    /// # Errors
    /// If there is no such workload, or its SQL does not compile.
    pub fn for_ring(workload: &str, servers: u16) -> Result<Prepared, CaseError> {
        let found = by_name(workload, servers);
        let workload = found.ok_or_else(|| CaseError::NoWorkload(workload.to_owned()))?;
        Prepared::with_guarantee(workload, 1, Guarantee::Serializable)
    }

    /// Compiles and plans a workload for a cluster of `nodes`.
    ///
    /// # Errors
    /// If its SQL does not compile.
    pub fn from_workload(workload: Arc<dyn Workload>, nodes: u16) -> Result<Prepared, CaseError> {
        Prepared::with_guarantee(workload, nodes, Guarantee::Invariants)
    }

    /// The same workload for `sites` sites, each with all of the data, that order transactions over guards.
    ///
    /// # Errors
    /// If a change of the workload cannot be sent to other sites as an effect.
    pub(crate) fn over_guards(&self, sites: u16) -> Result<Prepared, CaseError> {
        let workload = || Arc::clone(&self.workload);
        let mut prepared = Prepared::from_workload(workload(), 1)?;
        let planned = |partitions| {
            let (application, plan) = Prepared::compile(&*self.workload, Guarantee::Invariants)?;
            PlannedApplication::over_guards(application, plan, partitions)
                .map_err(CaseError::NotOverGuards)
        };
        prepared.planned = planned(1)?;
        prepared.homes = Some(Arc::new(Homes::new(planned(sites)?)));
        Ok(prepared)
    }

    fn with_guarantee(
        workload: Arc<dyn Workload>,
        nodes: u16,
        guarantee: Guarantee,
    ) -> Result<Prepared, CaseError> {
        let (application, plan) = Prepared::compile(&*workload, guarantee)?;
        let named = workload.procedures().iter().map(|name| {
            let mut all = application.procedures.iter();
            all.position(|p| p.name() == *name)
                .ok_or(CaseError::NoProcedure(name))
        });
        let procedures = named.collect::<Result<Vec<usize>, CaseError>>()?;
        Ok(Prepared {
            workload,
            planned: PlannedApplication::new(application, plan, nodes),
            nodes,
            procedures,
            homes: None,
        })
    }

    fn compile(
        workload: &dyn Workload,
        guarantee: Guarantee,
    ) -> Result<(Application, Plan), CaseError> {
        let files = workload.files().iter();
        let files: Vec<SourceFile> = files
            .map(|(name, text)| SourceFile::new(*name, *text))
            .collect();
        let failed =
            |found: Vec<diagnostic::Diagnostic>| CaseError::Sql(diagnostic::render(&found, &files));
        let catalog = anabranch_sql::catalog::load(files.clone()).map_err(failed)?;
        let application = Application::compile(catalog).map_err(failed)?;
        let plan = analyze(
            application.catalog(),
            application.summaries(),
            Shape::Partitioned,
            guarantee,
        );
        Ok((application, plan))
    }

    /// The application's number of each procedure of the workload.
    pub fn procedures(&self) -> &[usize] {
        &self.procedures
    }

    /// How long nodes retain overwritten versions. A transaction takes several message latencies, and has to find
    /// the versions that it reads. `calm` is whether the run has no faults.
    pub(crate) fn retention(&self, network: &Network, calm: bool) -> Ticks {
        self.retention_among(network, calm, self.nodes)
    }

    /// The same for `nodes` nodes of several clusters.
    pub(crate) fn retention_among(&self, network: &Network, calm: bool, nodes: u16) -> Ticks {
        let latency = network.longest(nodes).0;
        let retention = Ticks(latency.saturating_mul(LATENCIES_RETAINED));
        if calm {
            retention.max(RETENTION_MIN_CALM)
        } else {
            retention.max(StoreSettings::default().window)
        }
    }

    /// One store with its initial rows for each node. `calm` is whether the run has no faults.
    ///
    /// # Errors
    /// If a row of the workload does not load.
    pub fn stores(
        &self,
        seed: u64,
        network: &Network,
        calm: bool,
    ) -> Result<Vec<Store>, CaseError> {
        self.stores_retaining(seed, self.retention(network, calm))
    }

    pub(crate) fn stores_retaining(
        &self,
        seed: u64,
        window: Ticks,
    ) -> Result<Vec<Store>, CaseError> {
        let settings = StoreSettings { window };
        let loader = |node| Loader::new(Arc::clone(&self.planned), PartitionId(node), settings);
        let mut loaders: Vec<Loader> = (0..self.nodes).map(loader).collect();
        let schema = self.planned.schema();
        let mut failed = None;
        let mut builder = RowBuilder::default();
        self.workload.rows(seed, &mut |name, columns, values| {
            let Some(table) = schema.tables.iter().find(|t| t.name == name) else {
                failed.get_or_insert(format!("there is no table \"{name}\" to load"));
                return;
            };
            let ordered: Vec<Value> = table
                .columns
                .iter()
                .map(|column| {
                    let at = columns.iter().position(|c| *c == column.name);
                    at.map_or(Value::Null, |at| values[at].clone())
                })
                .collect();
            // Only the owner's loader needs to look at the row.
            let target = builder.build(&table.layout, &ordered).ok();
            let target = target.map(|row| self.planned.execution.router.row(table.id, &row));
            let owners = match target {
                Some(Target::One(owner)) => usize::from(owner.0)..usize::from(owner.0) + 1,
                _ => 0..loaders.len(),
            };
            for loader in &mut loaders[owners] {
                if let Err(error) = loader.row(table.id, &ordered) {
                    failed.get_or_insert(error.to_string());
                }
            }
        });
        match failed {
            Some(reason) => Err(CaseError::Row(reason)),
            None => Ok(loaders.into_iter().map(Loader::into_store).collect()),
        }
    }
}
