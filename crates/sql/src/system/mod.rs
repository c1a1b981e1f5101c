//! The system catalogs: `pg_catalog` and `information_schema`, as relations that statements read.
//!
//! 1. [`relations`] lists the relations and their columns, [`types`] the types.
//! 2. [`objects`] has an application's tables, columns, constraints and procedures, each with its OID.
//! 3. [`rows`] and [`information`] make the rows of each relation from them.
//! 4. [`lookup`] has the functions over them, such as `format_type`, and the names behind casts like `::regclass`.
//!
//! All of it is a function of the application alone. A value of the connection (its user, its database) stands in the
//! rows as a [`SessionCell`], which the binder makes a parameter of the statement. So does the last number of a sequence.
//!
//! The binder fills in the objects of a catalog (`bind::system`), since their definitions need types.

pub(crate) mod information;
pub(crate) mod lookup;
pub(crate) mod names;
pub(crate) mod objects;
pub(crate) mod relations;
pub(crate) mod rows;
pub(crate) mod types;

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use anabranch_types::{EnumType, Value};

use crate::sequence::ResolvedSequence;
use objects::Objects;
use relations::Definition;

/// The system catalogs of an application.
pub(crate) struct System {
    pub(crate) objects: Objects,
    /// The rows of relations that were read, by OID.
    contents: Mutex<BTreeMap<u32, Contents>>,
}

/// The rows of a relation.
#[derive(Clone, Debug)]
pub(crate) enum Contents {
    /// Values, row by row.
    Constant(Arc<Vec<Value>>),
    /// Rows with values of the connection, or of sequences.
    Session(Arc<Vec<Vec<Cell>>>),
}

/// A value in a row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cell {
    Value(Value),
    Session(SessionCell),
    /// The last number of a sequence; NULL before the first.
    LastCalled(Arc<ResolvedSequence>),
}

/// A value of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionCell {
    /// The name of its user, who owns everything.
    User,
    /// The name of its database.
    Database,
    /// The value of a setting, as text.
    Setting(&'static str),
}

impl fmt::Debug for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("System")
    }
}

/// An application has one of them.
impl PartialEq for System {
    fn eq(&self, other: &System) -> bool {
        std::ptr::eq(self, other)
    }
}

impl System {
    /// The system catalogs over these objects.
    pub(crate) fn new(objects: Objects) -> System {
        System {
            objects,
            contents: Mutex::default(),
        }
    }

    /// A type with its bounds, as `format_type` writes it.
    pub(crate) fn type_text(&self, oid: u32, modifier: Option<i32>) -> String {
        match self.own_type(oid) {
            Some((of, false)) => of.written.clone(),
            Some((of, true)) => format!("{}[]", of.written),
            None => types::type_text(oid, modifier),
        }
    }

    /// The enumeration with this OID, or whose arrays have it; whether it is the arrays'.
    pub(crate) fn own_type(&self, oid: u32) -> Option<(&EnumType, bool)> {
        self.objects.types.iter().find_map(|of| match oid {
            oid if oid == of.oid => Some((&**of, false)),
            oid if oid == of.array_oid() => Some((&**of, true)),
            _ => None,
        })
    }

    /// The rows of a relation.
    pub(crate) fn contents(&self, definition: &'static Definition) -> Contents {
        let mut made = self.contents.lock().unwrap_or_else(PoisonError::into_inner);
        let contents = made.entry(definition.oid).or_insert_with(|| {
            let rows = match definition.schema {
                "information_schema" => information::rows(definition, self),
                _ => rows::rows(definition, self),
            };
            let constant: Option<Vec<Value>> = rows
                .iter()
                .flatten()
                .map(|cell| match cell {
                    Cell::Value(value) => Some(value.clone()),
                    Cell::Session(_) | Cell::LastCalled(_) => None,
                })
                .collect();
            match constant {
                Some(values) => Contents::Constant(Arc::new(values)),
                None => Contents::Session(Arc::new(rows)),
            }
        });
        contents.clone()
    }
}

/// The relation with this name; without a schema, one of `pg_catalog`.
pub(crate) fn find(schema: Option<&str>, name: &str) -> Option<&'static Definition> {
    let schema = schema.unwrap_or("pg_catalog");
    let mut all = relations::definitions().iter().chain(relations::ours());
    all.find(|of| of.name == name && of.schema == schema)
}
