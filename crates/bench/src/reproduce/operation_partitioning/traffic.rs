//! The two applications as traffic: their operations, classes, keys and mixes.

use std::sync::Arc;

use anabranch_analysis::partition::{OperationClass, Writes};
use anabranch_analysis::{Guarantee, Options, Plan, analyze_with};
use anabranch_sql::SourceFile;
use anabranch_sql::script::read;
use anabranch_workload::Workload;
use anabranch_workload::mix::OperationMix;
use anabranch_workload::rubis::{self, Rubis};
use anabranch_workload::tpcw::{self, Tpcw};

use super::published;

/// An application of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Application {
    /// The bookstore, shopping mix.
    Tpcw,
    /// The auction site, bidding mix.
    Rubis,
}

impl Application {
    /// Both.
    pub(super) const ALL: [Application; 2] = [Application::Tpcw, Application::Rubis];

    /// Its name in the paper.
    pub(super) fn name(self) -> &'static str {
        match self {
            Application::Tpcw => "TPC-W",
            Application::Rubis => "RUBiS",
        }
    }

    /// Its place in pairs of published numbers.
    pub(super) fn place(self) -> usize {
        match self {
            Application::Tpcw => 0,
            Application::Rubis => 1,
        }
    }

    /// Its row of Table 1.
    pub(super) fn published(self) -> &'static published::Classes {
        match self {
            Application::Tpcw => &published::TPCW,
            Application::Rubis => &published::RUBIS,
        }
    }

    /// Its SQL and its data.
    pub(super) fn workload(self) -> Box<dyn Workload> {
        match self {
            Application::Tpcw => Box::new(Tpcw::shopping(10_000, 2_880)),
            Application::Rubis => Box::new(Rubis::bidding(10_000, 10_000)),
        }
    }

    /// The calls of the benchmark's mix.
    pub(super) fn benchmark_mix(self) -> OperationMix {
        match self {
            Application::Tpcw => tpcw::shopping_mix(),
            Application::Rubis => rubis::bidding_mix(),
        }
    }

    /// The keys of an operation of this name, if it is not called for what belongs to the client.
    fn foreign(self, name: &str) -> f64 {
        match (self, name) {
            // Routed by the address, which the client chooses.
            (Application::Tpcw, "create_new_customer") => 1.0,
            (
                Application::Rubis,
                "view_bid_history" | "put_bid" | "store_bid" | "store_comment" | "rate_user"
                | "buy_now_page" | "view_item" | "put_comment" | "register_user",
            ) => 1.0,
            // Of 5.9 visits 2.35 are to another user's page, the others to the own one.
            (Application::Rubis, "view_user" | "list_comments") => 0.4,
            _ => 0.0,
        }
    }

    /// What an operation of this name touches if rows are partitioned by their keys.
    fn footprint(self, name: &str) -> Footprint {
        use Footprint::{All, Home, One, Read, Write};
        match (self, name) {
            (
                Application::Tpcw,
                "get_name" | "create_empty_cart" | "do_cart" | "refresh_session" | "get_user_name",
            ) => Home,
            (Application::Tpcw, "get_book" | "get_customer" | "get_password") => One,
            (Application::Tpcw, "get_related") => Read(6),
            (Application::Tpcw, "get_cart" | "get_most_recent_order") => Read(3),
            (Application::Tpcw, "do_buy_confirm" | "do_buy_confirm_to") => Write(3),
            (Application::Tpcw, _) => All,
            (
                Application::Rubis,
                "authenticate" | "browse_categories" | "browse_regions" | "find_region"
                | "register_item" | "register_user" | "store_buy_now" | "list_items",
            ) => Home,
            (Application::Rubis, "search_items_by_category" | "search_items_by_region") => All,
            (Application::Rubis, "list_bids" | "list_won_items") => All,
            (
                Application::Rubis,
                "list_bought_items" | "view_item" | "put_bid" | "buy_now_page",
            ) => Read(2),
            (Application::Rubis, "view_bid_history" | "list_comments" | "put_comment") => Read(2),
            (Application::Rubis, _) => One,
        }
    }
}

/// What an operation touches if rows are partitioned by their keys, as the plan partitions operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Footprint {
    /// Rows of the client's own partition.
    Home,
    /// Rows of one partition, which any may be.
    One,
    /// Its own rows, and so many others that it reads, each of any partition.
    Read(u8),
    /// Its own rows, and so many others that it writes one after the other, each of any partition.
    Write(u8),
    /// It reads every partition's rows.
    All,
}

/// Which frequencies of classes the traffic has. The paper has two that contradict each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Frequencies {
    /// §7: the benchmark's mix, with the share of writes that the paper names; classes as the analysis finds them.
    Benchmark,
    /// Table 1: the printed shares of local, global and commutative operations. Keys belong to the client's server.
    Table1,
}

impl Frequencies {
    /// The name in tables.
    pub(super) fn name(self) -> &'static str {
        match self {
            Frequencies::Benchmark => "§7's share of writes",
            Frequencies::Table1 => "Table 1's classes",
        }
    }
}

/// How one type of operations behaves.
#[derive(Clone, Debug)]
pub(super) struct OperationType {
    /// The procedure.
    pub(super) name: &'static str,
    /// Its class.
    pub(super) class: OperationClass,
    /// Whether it writes nothing.
    pub(super) is_read_only: bool,
    /// Whether it has to run on the server of its key.
    pub(super) needs_key: bool,
    /// The share of its calls whose key may belong to any server.
    pub(super) foreign: f64,
    /// What it touches if rows are partitioned.
    pub(super) footprint: Footprint,
}

/// An application's operations and how often each is called.
#[derive(Clone, Debug)]
pub(super) struct Traffic {
    /// The application.
    pub(super) application: Application,
    /// By the index of the procedure.
    pub(super) types: Vec<OperationType>,
    /// How often each is called.
    pub(super) mix: OperationMix,
}

/// Why an application has no traffic: its SQL is not analysed, which its tests exclude.
#[derive(Debug, thiserror::Error)]
#[error("error: the application {application} is not analysed: {reason}")]
pub struct TrafficError {
    application: &'static str,
    reason: String,
}

/// The plan of an application, with weights by its mix.
pub(super) fn plan(
    application: Application,
    mix: &OperationMix,
    writes: Writes,
) -> Result<Plan, TrafficError> {
    let failed = |reason: String| TrafficError {
        application: application.name(),
        reason,
    };
    let workload = application.workload();
    let files = workload.files().iter();
    let files = files.map(|(name, text)| SourceFile::new(*name, *text));
    let script = read(files.collect()).map_err(|error| failed(format!("{error:?}")))?;
    let weights = workload.procedures().iter().zip(mix.shares());
    let options = Options {
        guarantee: Guarantee::Serializable,
        weights: weights
            .map(|(name, share)| ((*name).to_owned(), (share * 1e6).round() as u64))
            .collect(),
        writes,
        ..Options::default()
    };
    let catalog = script.application.catalog();
    Ok(analyze_with(catalog, &script.summaries, &options))
}

impl Traffic {
    /// The traffic of an application.
    ///
    /// # Errors
    /// When its SQL is not analysed.
    pub(super) fn new(
        application: Application,
        frequencies: Frequencies,
    ) -> Result<Arc<Traffic>, TrafficError> {
        let failed = |reason: &str| TrafficError {
            application: application.name(),
            reason: reason.to_owned(),
        };
        let mix = application.benchmark_mix();
        let plan = plan(application, &mix, Writes::Partitioned)?;
        let partitioning = plan.partitioning.as_ref();
        let partitioning =
            partitioning.ok_or_else(|| failed("it has no operation partitioning"))?;
        let mut types = Vec::new();
        for name in application.workload().procedures() {
            let place = plan.entries.iter().position(|entry| entry.name == *name);
            let place = place.ok_or_else(|| failed(name))?;
            let of = &partitioning.types[place];
            types.push(OperationType {
                name,
                class: of.class,
                is_read_only: plan.entries[place].read_only,
                needs_key: !of.parameters.is_empty() && partitioning.needs_key(place),
                foreign: application.foreign(name),
                footprint: application.footprint(name),
            });
        }
        let published = application.published();
        let mix = match frequencies {
            Frequencies::Benchmark => mix.with_shares(
                |operation| usize::from(!types[operation].is_read_only),
                &[1.0 - published.writes, published.writes],
            ),
            Frequencies::Table1 => {
                for of in &mut types {
                    of.foreign = 0.0;
                    if of.class == OperationClass::LocalOrGlobal {
                        of.class = OperationClass::Local;
                    }
                }
                let group = |operation: usize| match types[operation].class {
                    OperationClass::Local | OperationClass::LocalOrGlobal => 0,
                    OperationClass::Global => 1,
                    OperationClass::Commutative => 2,
                };
                mix.with_shares(group, &published.frequencies)
            }
        };
        Ok(Arc::new(Traffic {
            application,
            types,
            mix,
        }))
    }

    /// The share of operations that are global on so many servers.
    pub(super) fn global_share(&self, servers: u16) -> f64 {
        let mut global = 0.0;
        for (of, share) in self.types.iter().zip(self.mix.shares()) {
            global += share
                * match of.class {
                    OperationClass::Global => 1.0,
                    OperationClass::LocalOrGlobal => {
                        of.foreign * (1.0 - 1.0 / f64::from(servers.max(1)))
                    }
                    OperationClass::Local | OperationClass::Commutative => 0.0,
                };
        }
        global
    }

    /// The share of operations that are forwarded to another server's, of so many.
    pub(super) fn forwarded_share(&self, servers: u16) -> f64 {
        let others = 1.0 - 1.0 / f64::from(servers.max(1));
        let types = self.types.iter().zip(self.mix.shares());
        let forwarded = types.map(|(of, share)| match of.needs_key {
            true if of.class != OperationClass::LocalOrGlobal => share * of.foreign * others,
            _ => 0.0,
        });
        forwarded.sum()
    }

    /// The share of operations that write.
    pub(super) fn write_share(&self) -> f64 {
        self.mix
            .share_of(|operation| !self.types[operation].is_read_only)
    }
}
