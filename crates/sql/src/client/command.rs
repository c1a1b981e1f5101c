//! Command tags of statements over data.

/// The kind of a statement over data, as CommandComplete writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CommandTag {
    /// SELECT, VALUES, TABLE.
    Select,
    /// INSERT.
    Insert,
    /// UPDATE.
    Update,
    /// DELETE.
    Delete,
    /// MERGE.
    Merge,
    /// CALL.
    Call,
    /// COPY.
    Copy,
}

impl CommandTag {
    /// The tag's first word.
    pub fn name(self) -> &'static str {
        match self {
            CommandTag::Select => "SELECT",
            CommandTag::Insert => "INSERT",
            CommandTag::Update => "UPDATE",
            CommandTag::Delete => "DELETE",
            CommandTag::Merge => "MERGE",
            CommandTag::Call => "CALL",
            CommandTag::Copy => "COPY",
        }
    }

    /// The whole tag, with the number of rows that were returned, inserted, updated or deleted.
    pub fn complete(self, count: u64) -> String {
        match self {
            CommandTag::Call => "CALL".into(),
            CommandTag::Insert => format!("INSERT 0 {count}"),
            other => format!("{} {count}", other.name()),
        }
    }
}
