//! The schema as the generator of statements needs it.

/// The tables and views.
pub(crate) const SCHEMA: &str = include_str!("schema.sql");

/// The type of an expression, as far as operations depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ty {
    Small,
    Int,
    Big,
    Numeric,
    Real,
    Double,
    Text,
    Varchar,
    Char,
    Bool,
    Date,
    Timestamp,
    TimestampTz,
    Uuid,
    Bytea,
}

impl Ty {
    /// Types of drawn expressions; frequent ones are listed more than once.
    pub(super) const DRAWN: [&'static Ty; 13] = [
        &Ty::Int,
        &Ty::Int,
        &Ty::Int,
        &Ty::Big,
        &Ty::Numeric,
        &Ty::Numeric,
        &Ty::Numeric,
        &Ty::Text,
        &Ty::Text,
        &Ty::Text,
        &Ty::Bool,
        &Ty::Date,
        &Ty::Timestamp,
    ];

    /// Its name in a cast.
    pub(super) fn name(self) -> &'static str {
        match self {
            Ty::Small => "smallint",
            Ty::Int => "integer",
            Ty::Big => "bigint",
            Ty::Numeric => "numeric",
            Ty::Real => "real",
            Ty::Double => "double precision",
            Ty::Text | Ty::Varchar | Ty::Char => "text",
            Ty::Bool => "boolean",
            Ty::Date => "date",
            Ty::Timestamp => "timestamp",
            Ty::TimestampTz => "timestamptz",
            Ty::Uuid => "uuid",
            Ty::Bytea => "bytea",
        }
    }

    /// Whether a column of type `other` may be used where this type is required.
    pub(super) fn takes(self, other: Ty) -> bool {
        self == other
            || matches!(
                (self, other),
                (Ty::Int, Ty::Small)
                    | (Ty::Big, Ty::Small | Ty::Int)
                    | (Ty::Text, Ty::Varchar | Ty::Char)
            )
    }
}

/// The domain from which the values of a column are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Domain {
    /// Keys of `place`.
    Place,
    /// Keys of `person`.
    Person,
    /// The second part of `visit`'s key.
    Number,
    /// Any value of the type.
    Any,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct ColumnInfo {
    pub(super) name: &'static str,
    pub(super) ty: Ty,
    pub(super) nullable: bool,
    pub(super) domain: Domain,
}

/// A table or view.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TableInfo {
    /// Its name.
    pub(crate) name: &'static str,
    pub(super) columns: &'static [ColumnInfo],
    /// Columns of a unique key.
    pub(super) key: &'static [&'static str],
}

const fn column(name: &'static str, ty: Ty, domain: Domain) -> ColumnInfo {
    ColumnInfo {
        name,
        ty,
        nullable: false,
        domain,
    }
}

const fn nullable(name: &'static str, ty: Ty, domain: Domain) -> ColumnInfo {
    ColumnInfo {
        name,
        ty,
        nullable: true,
        domain,
    }
}

/// The tables, parents before children.
pub(crate) const TABLES: [TableInfo; 6] = [
    TableInfo {
        name: "place",
        columns: &[
            column("id", Ty::Int, Domain::Place),
            column("name", Ty::Varchar, Domain::Any),
            nullable("code", Ty::Char, Domain::Any),
            nullable("area", Ty::Numeric, Domain::Any),
            nullable("founded", Ty::Date, Domain::Any),
            column("is_open", Ty::Bool, Domain::Any),
        ],
        key: &["id"],
    },
    TableInfo {
        name: "person",
        columns: &[
            column("id", Ty::Int, Domain::Person),
            nullable("place_id", Ty::Int, Domain::Place),
            nullable("nick", Ty::Text, Domain::Any),
            nullable("grade", Ty::Small, Domain::Any),
            column("credit", Ty::Big, Domain::Any),
            nullable("rate", Ty::Double, Domain::Any),
            nullable("weight", Ty::Real, Domain::Any),
            nullable("seen", Ty::Timestamp, Domain::Any),
            nullable("joined", Ty::TimestampTz, Domain::Any),
            nullable("token", Ty::Uuid, Domain::Any),
            nullable("photo", Ty::Bytea, Domain::Any),
        ],
        key: &["id"],
    },
    TableInfo {
        name: "visit",
        columns: &[
            column("place_id", Ty::Int, Domain::Place),
            column("number", Ty::Int, Domain::Number),
            nullable("person_id", Ty::Int, Domain::Person),
            nullable("guide_id", Ty::Int, Domain::Person),
            column("fee", Ty::Numeric, Domain::Any),
            nullable("tip", Ty::Numeric, Domain::Any),
            nullable("note", Ty::Text, Domain::Any),
            column("day", Ty::Date, Domain::Any),
        ],
        key: &["place_id", "number"],
    },
    TableInfo {
        name: "entry",
        columns: &[
            column("id", Ty::Big, Domain::Any),
            nullable("place_id", Ty::Int, Domain::Place),
            nullable("number", Ty::Int, Domain::Number),
            column("amount", Ty::Numeric, Domain::Any),
            column("quantity", Ty::Int, Domain::Any),
        ],
        key: &["id"],
    },
    TableInfo {
        name: "tag",
        columns: &[
            column("person_id", Ty::Int, Domain::Person),
            column("word", Ty::Varchar, Domain::Any),
            nullable("strength", Ty::Int, Domain::Any),
        ],
        key: &["person_id", "word"],
    },
    TableInfo {
        name: "log",
        columns: &[
            nullable("at", Ty::Timestamp, Domain::Any),
            nullable("what", Ty::Text, Domain::Any),
            nullable("level", Ty::Small, Domain::Any),
        ],
        key: &[],
    },
];

/// The views.
pub(super) const VIEWS: [TableInfo; 2] = [
    TableInfo {
        name: "open_place",
        columns: &[
            column("id", Ty::Int, Domain::Place),
            column("name", Ty::Varchar, Domain::Any),
            nullable("area", Ty::Numeric, Domain::Any),
        ],
        key: &["id"],
    },
    TableInfo {
        name: "visit_total",
        columns: &[
            column("place_id", Ty::Int, Domain::Place),
            column("visits", Ty::Big, Domain::Any),
            nullable("fees", Ty::Numeric, Domain::Any),
        ],
        key: &["place_id"],
    },
];
