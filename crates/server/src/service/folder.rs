//! What a server's data folder says of the database in it, so that a restart needs nothing else.
//!
//! | file | has |
//! |---|---|
//! | `cluster` | one line of JSON: the folder's format, the guarantee, the partitions, where each table's rows live ([`crate::data`] writes it) |
//! | `application/files.json` | the names of the application's SQL files, in order |
//! | `application/0.sql`, … | their texts |
//! | `application/accepted.json` | the transactions that clients have accepted into the plan, if there are any |
//! | `identity`, and one in each node's folder | which of these folders belong together ([`crate::identity`]) |
//! | `durability` | `sync`, `batch` or `none`: how the logs were written last, and so whether they are to be cut ([`crate::data`]) |
//! | `node-0`, … | each node's log and checkpoint |
//!
//! After a change of the schema, `cluster` names a generation, and the others lie in the folder `generation-N` of it.
//!
//! The plan is made anew from the application, and what was accepted, at each start. Rows stay where they are, also if this version
//! would choose another placement: the next change of the schema chooses anew, and moves them. Where the types do not allow a
//! placement any more, the folder is refused.
//!
//! `cluster` has the checksums of the application's files, of what was accepted, and its own; logs and checkpoints have theirs. So damage is
//! found wherever it is ([`verify()`]).

mod verify;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};

use anabranch_engine::PlannedApplication;
use anabranch_engine::undeclared::{AcceptedShape, AcceptedStatement};
use anabranch_protocol::RECORD_FORMAT;
use anabranch_sql::source::SourceFile;
use anabranch_types::{ColumnIndex, DataType, Placement, Schema, TableId, TableSchema};
use anabranch_wire::format;
use serde_json::{Value, json};

pub use self::verify::{VerifiedFolder, VerifyError, verify};
use super::options::Guarantee;
use crate::checksum::checksum;
use crate::data::{APPLICATION, CLUSTER, generation_folder};
use crate::description::{
    FORMAT, GENERATION, described, generation_of, number_of_partitions, with_checksum,
};

const FILES: &str = "files.json";

/// What clients have accepted: a file beside the application's, and the key of its checksum.
const ACCEPTED: &str = "accepted.json";
const ACCEPTED_KEY: &str = "accepted";

/// The database that a folder holds.
#[derive(Clone, Debug)]
pub struct HeldDatabase {
    /// The application's SQL files, in order.
    pub files: Vec<SourceFile>,
    /// The guarantee under which its rows were written.
    pub guarantee: Guarantee,
    /// The number of partitions.
    pub partitions: u16,
    /// The generation that counts ([`crate::DataFolder::at_generation`]).
    pub generation: u64,
    /// The tables of which every partition has a copy, by name.
    pub replicated: BTreeSet<String>,
    /// Where the rows of each table are, by its name ([`place_name`]).
    pub placements: BTreeMap<String, String>,
    /// The transactions that clients have accepted into the plan.
    pub accepted: Vec<AcceptedShape>,
    /// Those that this version cannot read, each with the reason. The plan is made without them.
    pub unread: Vec<(String, String)>,
    /// The checksum of what was accepted, if something was.
    accepted_checksum: Option<String>,
}

impl HeldDatabase {
    /// The description that the folder has if the rows are where this plan has them. What was accepted is what the folder
    /// has, whether or not there is room for all of it.
    pub fn description(&self, planned: &PlannedApplication, files: &[SourceFile]) -> String {
        let accepted = self.accepted_checksum.clone();
        describe(planned, self.guarantee, files, (self.generation, accepted))
    }
}

impl HeldDatabase {
    /// Where its rows are: an application that is planned again leaves them there, whatever this version would choose.
    pub fn rows(&self) -> RowsBefore<'_> {
        RowsBefore {
            replicated: Some(&self.replicated),
            placements: Some(&self.placements),
        }
    }
}

/// Where rows are already when an application is planned. Without rows, the analysis chooses freely.
#[derive(Clone, Copy, Debug, Default)]
pub struct RowsBefore<'r> {
    /// The tables, by name, of which every partition has a copy. No other becomes one of them, since clients may write it.
    pub replicated: Option<&'r BTreeSet<String>>,
    /// Where the rows of each table are ([`place_name`]), if they stay there.
    pub placements: Option<&'r BTreeMap<String, String>>,
}

impl RowsBefore<'_> {
    /// The placements that are kept: those of all tables, or none.
    pub(super) fn kept(&self, schema: &Schema) -> Option<Vec<Placement>> {
        let placements = self.placements?;
        let kept = schema.tables.iter().map(|table| {
            let name = placements.get(&table.name)?;
            let columns = (0..table.columns.len()).map(|column| ColumnIndex(column as u16));
            let mut known = [Placement::Replicated, Placement::Whole]
                .into_iter()
                .chain(columns.map(|column| Placement::Columns(vec![column])));
            known.find(|known| place_name(table, known) == *name)
        });
        kept.collect()
    }
}

/// Why a folder cannot be served.
#[derive(Debug)]
#[non_exhaustive]
pub enum FolderError {
    /// The operating system refuses.
    Refused {
        /// The file or folder.
        path: PathBuf,
        /// The error.
        error: std::io::Error,
    },
    /// A file does not say what it should.
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// Another version wrote the folder.
    OtherVersion {
        /// The folder.
        path: PathBuf,
        /// What differs.
        difference: String,
    },
    /// Other SQL files were given than the folder holds.
    OtherApplication {
        /// The folder.
        path: PathBuf,
        /// The first difference.
        difference: String,
    },
}

impl fmt::Display for FolderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FolderError::Refused { path, error } => write!(f, "{}: {error}", path.display()),
            FolderError::Damaged { path, reason } => write!(
                f,
                "{}: {reason}; restore the folder from a backup",
                path.display()
            ),
            FolderError::OtherVersion { path, difference } => write!(
                f,
                "{} was written by another version of anabranch: {difference}; serve it with that version",
                path.display()
            ),
            FolderError::OtherApplication { path, difference } => write!(
                f,
                "{} holds another application: {difference}; leave the SQL files out to serve what it \
                 holds, or name a new folder",
                path.display()
            ),
        }
    }
}

impl std::error::Error for FolderError {}

/// The database that a folder holds; `None` for one that is new, empty, or left behind by an unfinished start.
///
/// # Errors
/// When it cannot be read, or another version wrote it.
pub fn held(folder: &Path) -> Result<Option<HeldDatabase>, FolderError> {
    let path = folder.join(CLUSTER);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(FolderError::Refused { path, error }),
    };
    let damaged = |reason: &str| FolderError::Damaged {
        path: path.clone(),
        reason: reason.to_owned(),
    };
    let described = described(&text).map_err(damaged)?;
    let number = |key: &str| described[key].as_u64();
    for (key, what, ours) in [
        ("format", "its layout", FORMAT),
        (
            "records",
            "the form of its records",
            u64::from(RECORD_FORMAT),
        ),
    ] {
        match number(key) {
            Some(found) if found == ours => {}
            found => {
                let found = found.map_or("not numbered".to_owned(), |found| format!("{found}"));
                return Err(FolderError::OtherVersion {
                    path: folder.to_owned(),
                    difference: format!("{what} is {found}, and this version has {ours}"),
                });
            }
        }
    }
    let guarantee = match described["guarantee"].as_str() {
        Some("serializable") => Guarantee::Serializable,
        Some("invariants") => Guarantee::Invariants,
        _ => return Err(damaged("its guarantee is missing")),
    };
    let partitions = number_of_partitions(&described);
    let generation = generation_of(&described);
    let inner = generation_folder(folder, generation);
    let placements = placements(&described);
    let accepted_checksum = described.get(ACCEPTED_KEY);
    let accepted_checksum = accepted_checksum.map(|of| of.as_str().unwrap_or_default().to_owned());
    let ReadShapes { accepted, unread } = match &accepted_checksum {
        Some(checksum) => read_accepted(&inner.join(APPLICATION).join(ACCEPTED), checksum)?,
        None => ReadShapes::default(),
    };
    Ok(Some(HeldDatabase {
        files: read_application(&inner.join(APPLICATION))?,
        accepted,
        unread,
        accepted_checksum,
        generation,
        replicated: tables_with_copies(&placements),
        placements,
        guarantee,
        partitions: partitions.ok_or_else(|| damaged("its number of partitions is missing"))?,
    }))
}

fn read_application(folder: &Path) -> Result<Vec<SourceFile>, FolderError> {
    let read = |path: PathBuf| match std::fs::read_to_string(&path) {
        Ok(text) => Ok((text, path)),
        Err(error) => Err(FolderError::Refused { path, error }),
    };
    let (text, path) = read(folder.join(FILES))?;
    let names: Vec<String> = serde_json::from_str(&text).map_err(|error| FolderError::Damaged {
        path,
        reason: error.to_string(),
    })?;
    let files = names.into_iter().enumerate().map(|(number, name)| {
        let (text, _) = read(folder.join(format!("{number}.sql")))?;
        Ok(SourceFile::new(name, text))
    });
    files.collect()
}

/// Writes the application's files, durably. Until the folder is claimed they may be written again.
///
/// # Errors
/// When the operating system refuses.
pub fn write_application(folder: &Path, files: &[SourceFile]) -> Result<(), FolderError> {
    let folder = folder.join(APPLICATION);
    let write = |path: &Path, text: &str| {
        let mut file = std::fs::File::create(path)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    };
    let refused = |path: &Path| {
        let path = path.to_owned();
        move |error| FolderError::Refused { path, error }
    };
    std::fs::create_dir_all(&folder).map_err(refused(&folder))?;
    for (number, file) in files.iter().enumerate() {
        let path = folder.join(format!("{number}.sql"));
        write(&path, &file.text).map_err(refused(&path))?;
    }
    let names: Vec<&str> = files.iter().map(|file| &*file.name).collect();
    let path = folder.join(FILES);
    write(&path, &format!("{}\n", json!(names))).map_err(refused(&path))?;
    std::fs::File::open(&folder)
        .and_then(|folder| folder.sync_all())
        .map_err(refused(&folder))
}

/// Writes what clients have accepted, durably, beside the application's files. No file says that they have accepted nothing.
///
/// # Errors
/// When the operating system refuses.
pub(super) fn write_accepted(
    folder: &Path,
    planned: &PlannedApplication,
) -> Result<(), FolderError> {
    let Some(text) = accepted_text(planned) else {
        return Ok(());
    };
    let folder = folder.join(APPLICATION);
    let path = folder.join(ACCEPTED);
    let write = || {
        let mut file = std::fs::File::create(&path)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::File::open(&folder)?.sync_all()
    };
    write().map_err(|error| FolderError::Refused {
        path: path.clone(),
        error,
    })
}

/// What clients have accepted, as text; `None` if that is nothing. Types of parameters have PostgreSQL's numbers, 0 stands
/// for one that follows from its use.
fn accepted_text(planned: &PlannedApplication) -> Option<String> {
    let shapes: Vec<Value> = planned
        .accepted()
        .map(|shape| {
            let statements = shape.statements.iter().map(|statement| {
                let oid = |of: &Option<DataType>| of.as_ref().map_or(0, format::oid_of);
                let parameters: Vec<u32> = statement.parameters.iter().map(oid).collect();
                json!({ "text": &*statement.text, "parameters": parameters })
            });
            let statements: Vec<Value> = statements.collect();
            json!({ "block": shape.is_block, "statements": statements })
        })
        .collect();
    (!shapes.is_empty()).then(|| format!("{}\n", Value::from(shapes)))
}

/// What was read of the accepted transactions.
#[derive(Default)]
struct ReadShapes {
    accepted: Vec<AcceptedShape>,
    unread: Vec<(String, String)>,
}

fn read_accepted(path: &Path, expected: &str) -> Result<ReadShapes, FolderError> {
    let damaged = |reason: String| FolderError::Damaged {
        path: path.to_owned(),
        reason,
    };
    let text = std::fs::read_to_string(path).map_err(|error| FolderError::Refused {
        path: path.to_owned(),
        error,
    })?;
    if checksum(text.as_bytes()) != expected {
        let what = format!("the checksum of its {} bytes is wrong", text.len());
        return Err(damaged(what));
    }
    let shapes: Vec<Value> =
        serde_json::from_str(&text).map_err(|error| damaged(error.to_string()))?;
    let mut read = ReadShapes::default();
    for shape in &shapes {
        let lacking = || damaged("a transaction lacks a part".to_owned());
        match accepted_shape(shape).ok_or_else(lacking)? {
            Ok(shape) => read.accepted.push(shape),
            Err(unread) => read.unread.push(unread),
        }
    }
    Ok(read)
}

/// The shape that was written, or the title and the reason of one with a type that this version does not have. `None`: a part
/// of it is missing.
fn accepted_shape(value: &Value) -> Option<Result<AcceptedShape, (String, String)>> {
    let mut refusal = None;
    let mut statements = Vec::new();
    for value in value["statements"].as_array()? {
        let mut parameters = Vec::new();
        for oid in value["parameters"].as_array()? {
            match format::data_type_of(u32::try_from(oid.as_u64()?).ok()?) {
                Ok(data_type) => parameters.push(data_type),
                Err(failure) => {
                    refusal.get_or_insert(failure.message);
                    parameters.push(None);
                }
            }
        }
        statements.push(AcceptedStatement {
            text: value["text"].as_str()?.into(),
            parameters,
        });
    }
    let shape = AcceptedShape {
        statements,
        is_block: value["block"].as_bool()?,
    };
    Some(match refusal {
        None => Ok(shape),
        Some(reason) => Err((shape.title(), reason)),
    })
}

/// Where a table lives of which every partition has a copy.
const EVERY_PARTITION: &str = "every partition";

fn placements(described: &Value) -> BTreeMap<String, String> {
    let placements = described["placements"].as_object();
    let tables = placements.into_iter().flatten();
    tables
        .filter_map(|(table, place)| Some((table.clone(), place.as_str()?.to_owned())))
        .collect()
}

fn tables_with_copies(placements: &BTreeMap<String, String>) -> BTreeSet<String> {
    let tables = placements.iter();
    tables
        .filter(|(_, place)| *place == EVERY_PARTITION)
        .map(|(table, _)| table.clone())
        .collect()
}

/// Where a table's rows are, in words: the columns that place them, or which partitions have them.
pub fn place_name(table: &TableSchema, placement: &Placement) -> String {
    match placement {
        Placement::Replicated => EVERY_PARTITION.to_owned(),
        Placement::Whole => "partition 0".to_owned(),
        Placement::Columns(columns) => {
            let names = columns
                .iter()
                .map(|column| &*table.columns[column.index()].name);
            names.collect::<Vec<_>>().join(", ")
        }
    }
}

/// Describes a database in one line: what must be the same when its folder is opened again
/// ([`HeldDatabase::description`]). `generation` is that of the folder, 0 before the first change of the schema.
pub fn description(
    planned: &PlannedApplication,
    guarantee: Guarantee,
    files: &[SourceFile],
    generation: u64,
) -> String {
    let accepted = accepted_text(planned).map(|text| checksum(text.as_bytes()));
    describe(planned, guarantee, files, (generation, accepted))
}

fn describe(
    planned: &PlannedApplication,
    guarantee: Guarantee,
    files: &[SourceFile],
    (generation, accepted): (u64, Option<String>),
) -> String {
    let checksums: Vec<String> = files
        .iter()
        .map(|file| checksum(file.text.as_bytes()))
        .collect();
    let router = &planned.execution.router;
    let tables = planned.schema().tables.iter().zip(0..);
    let placements = tables.map(|(table, id)| {
        let place = place_name(table, router.placement(TableId(id)));
        (table.name.to_string(), json!(place))
    });
    let mut description = json!({
        "format": FORMAT,
        "records": RECORD_FORMAT,
        "guarantee": guarantee.name(),
        "partitions": router.partitions(),
        "files": checksums,
        "placements": placements.collect::<serde_json::Map<_, _>>(),
    });
    if generation > 0 {
        description[GENERATION] = Value::from(generation);
    }
    if let Some(accepted) = accepted {
        description[ACCEPTED_KEY] = Value::from(accepted);
    }
    with_checksum(description)
}

/// Refuses files that are not those of the folder, with the first difference.
///
/// # Errors
/// [`FolderError::OtherApplication`].
pub fn check_same(
    folder: &Path,
    held: &[SourceFile],
    given: &[SourceFile],
) -> Result<(), FolderError> {
    let other = |difference: String| FolderError::OtherApplication {
        path: folder.to_owned(),
        difference,
    };
    for (held, given) in held.iter().zip(given) {
        if held.text == given.text {
            continue;
        }
        let mut lines = held.text.lines().zip(given.text.lines()).zip(1..);
        let difference = match lines.find(|((held, given), _)| held != given) {
            Some(((held, given), number)) => {
                format!(
                    "line {number} is \"{}\", and was \"{}\"",
                    given.trim(),
                    held.trim()
                )
            }
            None => "one is longer than the other".to_owned(),
        };
        return Err(other(format!("{}: {difference}", given.name)));
    }
    if held.len() != given.len() {
        return Err(other(format!(
            "it has {} SQL files, and {} were given",
            held.len(),
            given.len()
        )));
    }
    Ok(())
}
