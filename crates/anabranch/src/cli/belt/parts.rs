//! What has to be installed on each server, and what does not fit.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_analysis::partition::{
    Distribution, OperationClass, Partitioning, Spread, WrittenParts,
};
use anabranch_analysis::report::partition::class_name;
use anabranch_dbms::Servers;
use anabranch_dbms::postgres::capture::ReplicatedTable;
use anabranch_dbms::postgres::catalog::{Sequence, Table};
use anabranch_dbms::postgres::closed::{self, Progress};
use anabranch_dbms::postgres::explain;
use anabranch_dbms::postgres::inspect::Inspection;
use anabranch_dbms::postgres::install::{self, InstalledType, Part};
use anabranch_dbms::postgres::install_all::{Member, Source, install_all};
use anabranch_dbms::servers::{ServerEntry, Unknown, Writes};
use anabranch_dbms::slots;
use anabranch_sql::catalog::ReferentialAction;
use anabranch_sql::summary::Role;
use anabranch_types::{ColumnIndex, DataType, TableSchema};

use super::Reached;
use crate::cli::input::Input;

/// The most differences between two servers' schemas that are named.
const DIFFERENCES_MAX: usize = 10;

/// The schema of the tables of an application's files.
pub(super) const SCHEMA: &str = "public";

/// A table of the application, and which servers have its rows.
pub(super) struct Held {
    pub(super) name: String,
    pub(super) distribution: Distribution,
    /// The column that distributes its rows.
    pub(super) column: Option<String>,
    /// The transaction types that write it and are not local.
    pub(super) writers: Vec<String>,
    /// Whether only global operations write it, so that every server has all of it. Operations of a local-or-global type
    /// may write it on their server alone.
    pub(super) is_whole: bool,
    /// Whether only global operations insert and delete its rows, if any do, so that every server has all of them.
    pub(super) has_all_rows: bool,
    /// Whether its changes are captured.
    pub(super) is_replicated: bool,
    /// Which server has the newest copy of a row.
    pub(super) newest: Newest,
    /// Whether operations that run on one server find its rows by that column alone.
    pub(super) is_found_by_key: bool,
    /// The columns whose newest values one server alone may have.
    pub(super) own_columns: BTreeSet<String>,
    /// How the transaction types find and write its rows.
    pub(super) uses: Vec<Use>,
}

/// How a statement of a transaction type uses a table's rows.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Use {
    /// The type, and where its operations run.
    pub(super) of: InstalledType,
    /// What it does; nothing if it is not known.
    role: Option<Role>,
    /// The columns by which it finds rows, or that it writes, and how.
    columns: Vec<(String, String)>,
    has_other_conditions: bool,
}

impl Use {
    /// The same with the columns by the names that these had, and without those that are new.
    pub(super) fn renamed(&self, names: &BTreeMap<&str, &str>) -> Use {
        let columns = self.columns.iter();
        let columns = columns.filter_map(|(name, how)| {
            let name = names.get(name.as_str())?;
            Some(((*name).to_owned(), how.clone()))
        });
        Use {
            columns: columns.collect(),
            ..self.clone()
        }
    }
}

impl Held {
    /// Whether a server can hand its rows over to another one, together with their keys.
    pub(super) fn may_move(&self) -> bool {
        match self.newest {
            Newest::Everywhere => true,
            Newest::ByColumn(..) => self.is_found_by_key,
            Newest::Inserted | Newest::Unknown => false,
        }
    }
}

/// Which server has the newest copy of a table's row.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Newest {
    /// Every server: only global operations write it, if any do.
    Everywhere,
    /// The one that the value of this column is routed to.
    ByColumn(String, DataType),
    /// Each that has it, for rows are only inserted.
    Inserted,
    /// No column tells.
    Unknown,
}

/// A server, and what is known of its database.
pub(super) struct Seen<'s> {
    pub(super) entry: &'s ServerEntry,
    /// The role of the middleware.
    pub(super) role: Option<&'s str>,
    pub(super) database: Result<&'s Inspection, &'s str>,
}

impl Seen<'_> {
    /// The servers as they were reached.
    pub(super) fn of(reached: &[Reached]) -> Vec<Seen<'_>> {
        let all = reached.iter().map(|server| Seen {
            entry: &server.entry,
            role: server.role.as_deref(),
            database: match &server.database {
                Ok((_, inspection)) => Ok(inspection),
                Err(error) => Err(error),
            },
        });
        all.collect()
    }
}

/// What has to be installed.
pub(super) struct Parts {
    /// The tables of the application, by name.
    pub(super) tables: Vec<Held>,
    /// The sequences that get numbers of their own on each server.
    pub(super) sequences: Vec<Sequence>,
    /// By server: what is installed there.
    parts: Vec<Part>,
    /// What does not fit, and what to do.
    pub(super) objections: Vec<String>,
    pub(super) remarks: Vec<String>,
}

impl Parts {
    /// What each of these servers gets, but for those at the places `without`, which are no members of the ring any more.
    pub(super) fn new(
        servers: &Servers,
        input: &Input,
        seen: &[Seen<'_>],
        without: &[usize],
    ) -> Parts {
        let mut parts = Parts {
            tables: Vec::new(),
            sequences: Vec::new(),
            parts: Vec::new(),
            objections: Vec::new(),
            remarks: Vec::new(),
        };
        let members = || {
            let all = seen.iter().enumerate();
            all.filter(|(place, _)| !without.contains(place))
                .map(|(_, server)| server)
        };
        for server in members() {
            let name = &server.entry.name;
            match &server.database {
                Err(error) => parts.objections.push(format!("{name}: {error}")),
                Ok(inspection) => {
                    let objections = inspection.objections.iter();
                    parts
                        .objections
                        .extend(objections.map(|what| format!("{name}: {what}")));
                    let remarks = inspection.remarks.iter();
                    parts
                        .remarks
                        .extend(remarks.map(|what| format!("{name}: {what}")));
                }
            }
        }
        if let Some(partitioning) = &input.plan.partitioning {
            parts.tables = held(input, partitioning);
        }
        for table in &parts.tables {
            if table.newest == Newest::Unknown {
                parts.remarks.push(format!(
                    "no column of {} tells which server has the newest copy of a row: belt remove --gather, add-server and remove-server cannot move them",
                    table.name
                ));
            }
        }
        let mut usable = members().filter_map(|of| Some((&of.entry.name, of.database.ok()?)));
        let Some((first_name, first)) = usable.next() else {
            return parts;
        };
        for (name, inspection) in usable {
            if inspection.digest != first.digest {
                let names = (first_name.as_str(), name.as_str());
                let lines =
                    install::differences(&first.shape, &inspection.shape, names, DIFFERENCES_MAX);
                parts.objections.push(format!(
                    "the schemas of {first_name} and {name} differ: {}",
                    lines.join("; ")
                ));
            }
        }
        let mut replicated = parts.replicated(&first.tables);
        let named: BTreeSet<&str> = parts.tables.iter().map(|t| t.name.as_str()).collect();
        let others = first
            .tables
            .iter()
            .filter(|t| t.schema != SCHEMA || !named.contains(t.name.as_str()));
        let is_everywhere = servers.writes == Writes::Everywhere;
        let ships = is_everywhere || servers.unknown == Unknown::Global;
        let (shipped, kept): (Vec<&Table>, Vec<&Table>) =
            others.partition(|t| ships && t.unsupported.is_none());
        let titles = |of: &[&Table]| {
            let titles: Vec<String> = of.iter().map(|t| t.title()).collect();
            titles.join(", ")
        };
        if !shipped.is_empty() {
            parts.remarks.push(format!(
                "no statement of the application names {}: what writes there is global, and all servers get it",
                titles(&shipped)
            ));
        }
        if is_everywhere {
            for table in &kept {
                parts.objections.push(format!(
                    "{}: with writes = \"everywhere\" all servers have its rows, but {}",
                    table.title(),
                    table.unsupported.unwrap_or("its changes are not captured")
                ));
            }
        } else if !kept.is_empty() {
            parts.remarks.push(format!(
                "no statement of the application names {}: what is written there stays on its server",
                titles(&kept)
            ));
        }
        for table in shipped {
            replicated.push(ReplicatedTable {
                number: replicated.len() as i16 + 1,
                table: table.clone(),
                is_whole: true,
            });
        }
        parts.choose_sequences(servers, seen);
        let ring = servers
            .server
            .iter()
            .map(|server| server.name.as_str())
            .collect::<Vec<_>>()
            .join(",");
        for (place, server) in seen.iter().enumerate() {
            let count = seen.len() as u16;
            parts.parts.push(Part {
                ring: ring.clone(),
                name: server.entry.name.clone(),
                place: place as u16,
                servers: count,
                slots: servers.slots,
                owners: slots::initial(servers.slots, count),
                tables: replicated.clone(),
                sequences: parts.sequences.clone(),
                middleware: server.role.map(str::to_owned),
                applications: servers.applications.clone(),
                digest: first.digest.clone(),
                types: types(input),
            });
        }
        parts
    }

    /// The replicated tables, numbered by their names.
    fn replicated(&mut self, known: &[Table]) -> Vec<ReplicatedTable> {
        let mut replicated = Vec::new();
        for held in &mut self.tables {
            let found = known
                .iter()
                .find(|t| t.schema == SCHEMA && t.name == held.name);
            let is_needed = !matches!(
                held.distribution,
                Distribution::Anywhere | Distribution::By(_) | Distribution::Scattered
            );
            let is_written = held.distribution != Distribution::Immutable;
            match found {
                None => self.objections.push(format!(
                    "the servers have no table {}: load the application's schema on each of them first",
                    held.name
                )),
                Some(table) if is_needed => match table.unsupported {
                    None => {
                        held.is_replicated = true;
                        replicated.push(ReplicatedTable {
                            number: replicated.len() as i16 + 1,
                            table: table.clone(),
                            is_whole: held.is_whole,
                        });
                    }
                    // What is never written needs no capture.
                    Some(_) if !is_written => {}
                    Some(why) => self.objections.push(format!(
                        "changes of {} cannot be captured: {why}",
                        held.name
                    )),
                },
                Some(_) => {}
            }
        }
        replicated
    }

    /// All sequences, each with the highest number that any server has given.
    fn choose_sequences(&mut self, servers: &Servers, seen: &[Seen<'_>]) {
        let mut chosen: BTreeMap<String, Sequence> = BTreeMap::new();
        let inspections = seen.iter().filter_map(|of| of.database.ok());
        for sequence in inspections.flat_map(|inspection| &inspection.sequences) {
            let entry = chosen
                .entry(sequence.path())
                .or_insert_with(|| sequence.clone());
            entry.last = entry.last.max(sequence.last);
            entry.cycles |= sequence.cycles;
        }
        for sequence in chosen.values() {
            let slots = i64::from(servers.slots);
            if sequence.increment != 1 && sequence.increment != slots {
                self.objections.push(format!(
                    "the sequence {} counts in steps of {}, and its numbers cannot be told apart by server: ALTER SEQUENCE {} INCREMENT BY 1",
                    sequence.name,
                    sequence.increment,
                    sequence.path()
                ));
            }
        }
        for sequence in chosen.values().filter(|sequence| sequence.cycles) {
            self.objections.push(format!(
                "the sequence {} begins again at its end, and its numbers would then be those of other servers: ALTER SEQUENCE {} NO CYCLE, on each server",
                sequence.name,
                sequence.path()
            ));
        }
        self.sequences = chosen.into_values().collect();
    }

    /// What the server at a place gets.
    pub(super) fn of(&self, place: usize) -> Option<&Part> {
        self.parts.get(place)
    }

    /// What the last server gets.
    pub(super) fn last(&self) -> Option<&Part> {
        self.parts.last()
    }

    /// Installs everything, on all servers or on none, with the rows of the server at the place `from` if there is one.
    /// Those of the servers at the places `replaced` may be others. Returns the tables that were copied, with their
    /// numbers of rows.
    pub(super) fn install(
        &mut self,
        reached: &mut [Reached],
        from: Option<usize>,
        replaced: &[usize],
    ) -> Result<Vec<(String, u64)>, String> {
        let mut members = Vec::new();
        let mut tables: &[Table] = &[];
        for (place, (server, part)) in reached.iter_mut().zip(&self.parts).enumerate() {
            let name = server.entry.name.as_str();
            let Ok((client, inspection)) = &mut server.database else {
                continue;
            };
            if let Some(installed) = &inspection.installed {
                self.objections.push(format!(
                    "{name}: the belt is installed there already (ring {}, hop {}): anabranch belt remove takes it away",
                    installed.ring, installed.received
                ));
            }
            let progress = closed::progress(client)
                .map_err(|error| format!("error: {name}: {}", explain(&error)))?;
            if progress == Progress::Gathered {
                self.objections.push(format!(
                    "{name}: the rows of a ring were gathered there, and other servers may still have the belt: repeat anabranch \
                     belt remove --gather {name}"
                ));
            }
            if from == Some(place) {
                tables = &inspection.tables;
            }
            members.push(Member { name, client, part });
        }
        if !self.objections.is_empty() {
            return Ok(Vec::new());
        }
        let source = from.map(|member| Source {
            member,
            tables,
            replaced,
        });
        let outcome = install_all(members, source, &mut |_| {})?;
        self.objections.extend(outcome.objections);
        self.remarks.extend(outcome.remarks);
        Ok(outcome.copied)
    }
}

/// The transaction types, as a ring is installed for them.
pub(super) fn types(input: &Input) -> Vec<InstalledType> {
    let Some(partitioning) = &input.plan.partitioning else {
        return Vec::new();
    };
    let types = input.plan.entries.iter().zip(&partitioning.types);
    let mut types: Vec<InstalledType> = types
        .map(|(entry, of)| {
            let summaries = &input.script.summaries;
            let summary = summaries.iter().find(|s| s.name == entry.name);
            let name_of = |place: &usize| {
                let parameter = summary.and_then(|s| s.parameters.get(*place));
                parameter.map_or_else(|| format!("${}", place + 1), |(name, _)| name.clone())
            };
            InstalledType {
                name: entry.name.clone(),
                class: class_name(of.class).to_owned(),
                parameters: of.parameters.iter().map(name_of).collect(),
            }
        })
        .collect();
    types.sort();
    types
}

/// The tables of the application with their distributions.
pub(super) fn held(input: &Input, partitioning: &Partitioning) -> Vec<Held> {
    let catalog = input.script.application.catalog();
    let installed = types(input);
    let mut tables: Vec<Held> = catalog
        .schema
        .tables
        .iter()
        .zip(partitioning.tables.iter().zip(&partitioning.written))
        .map(|(table, (distribution, written))| {
            let writes = |place: &usize| {
                let statements = input.script.summaries[*place].statements.iter();
                let mut accesses = statements.flat_map(|statement| &statement.accesses);
                partitioning.types[*place].class != OperationClass::Local
                    && accesses.any(|a| a.table == table.id && a.role != Role::Read)
            };
            let column = match distribution {
                Distribution::By(column) => Some(table.columns[column.index()].name.clone()),
                _ => None,
            };
            let writers = (0..input.script.summaries.len()).filter(writes);
            Held {
                name: table.name.clone(),
                distribution: distribution.clone(),
                column,
                writers: writers
                    .map(|place| input.script.summaries[place].name.clone())
                    .collect(),
                is_whole: std::iter::once(&written.rows)
                    .chain(&written.columns)
                    .all(|spread| *spread != Spread::OwnServer),
                has_all_rows: written.rows != Spread::OwnServer,
                is_replicated: false,
                newest: newest(input, table, written),
                is_found_by_key: written.is_found_by_key,
                own_columns: table
                    .columns
                    .iter()
                    .zip(&written.columns)
                    .filter(|(_, spread)| **spread == Spread::OwnServer)
                    .map(|(column, _)| column.name.clone())
                    .collect(),
                uses: uses(input, table, &installed),
            }
        })
        .collect();
    tables.sort_by(|a, b| a.name.cmp(&b.name));
    tables
}

/// How the transaction types use a table.
fn uses(input: &Input, table: &TableSchema, types: &[InstalledType]) -> Vec<Use> {
    let mut uses = Vec::new();
    for summary in &input.script.summaries {
        let Some(of) = types.iter().find(|of| of.name == summary.name) else {
            continue;
        };
        if summary.unknown.is_some() || summary.may_change_any_table {
            uses.push(Use {
                of: of.clone(),
                role: None,
                columns: Vec::new(),
                has_other_conditions: true,
            });
        }
        let statements = summary.statements.iter();
        let accesses = statements.flat_map(|statement| &statement.accesses);
        for access in accesses.filter(|access| access.table == table.id) {
            let name = |column: ColumnIndex| table.columns[column.index()].name.clone();
            let finds = access.conditions.iter();
            let finds = finds.map(|of| {
                (
                    name(of.column),
                    format!("{:?} {:?}", of.comparison, of.term),
                )
            });
            let writes = access.writes.iter();
            let writes = writes.map(|of| (name(of.column), format!("{:?}", of.class)));
            let listed = access.listed.iter();
            let listed =
                listed.map(|(column, parameter)| (name(*column), format!("any {parameter}")));
            uses.push(Use {
                of: of.clone(),
                role: Some(access.role),
                columns: finds.chain(listed).chain(writes).collect(),
                has_other_conditions: access.has_other_conditions,
            });
        }
    }
    uses
}

/// Which server has the newest copy of a table's row.
fn newest(input: &Input, table: &TableSchema, written: &WrittenParts) -> Newest {
    let mut parts = std::iter::once(&written.rows).chain(&written.columns);
    if parts.all(|spread| *spread != Spread::OwnServer) {
        return Newest::Everywhere;
    }
    if let Some(column) = written.key {
        let column = &table.columns[column.index()];
        return Newest::ByColumn(column.name.clone(), column.data_type.clone());
    }
    let catalog = input.script.application.catalog();
    let summaries = &input.script.summaries;
    let mut accesses = summaries
        .iter()
        .flat_map(|summary| &summary.statements)
        .flat_map(|statement| &statement.accesses);
    let only_inserts =
        accesses.all(|a| a.table != table.id || matches!(a.role, Role::Read | Role::Insert));
    let is_known = summaries
        .iter()
        .all(|of| of.unknown.is_none() && !of.may_change_any_table);
    // What a deletion or an update of a parent does to its children.
    let cascades = |action: ReferentialAction| {
        !matches!(
            action,
            ReferentialAction::NoAction | ReferentialAction::Restrict
        )
    };
    let declared = catalog.schema.tables.iter().zip(&catalog.tables);
    let mut declared = declared.filter(|(of, _)| of.id == table.id);
    let is_changed_with_parents = declared.any(|(_, of)| {
        of.foreign_keys
            .iter()
            .any(|key| cascades(key.on_delete) || cascades(key.on_update))
    });
    let has_key = !table.primary_key.is_empty();
    match only_inserts
        && is_known
        && has_key
        && !is_changed_with_parents
        && !input.script.has_triggers()
    {
        true => Newest::Inserted,
        false => Newest::Unknown,
    }
}
