//! How operations are partitioned: the part of a plan that [`crate::partition`] computes.

use anabranch_types::{ColumnIndex, TableId};

/// What an operation is routed by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// An input parameter, by its index.
    Parameter(usize),
    /// A key that the operation generates where it runs.
    Generated,
}

/// How far the operations of a type have to be coordinated (§3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OperationClass {
    /// They conflict with no operation: any server runs them, and nobody is told.
    Commutative,
    /// They run on the server that their parameter is routed to (any, without one), at once: no operation of
    /// another server depends on what they do.
    Local,
    /// Local where all parameters are routed to one server, global otherwise: known when the operation comes.
    LocalOrGlobal,
    /// They are ordered among all servers, and what they write is applied on all.
    Global,
}

/// How the operations of two types conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConflictKind {
    /// The first reads what the second writes.
    ReadsFrom,
    /// The first writes what the second reads.
    IsReadBy,
    /// Both write.
    BothWrite,
    /// Both hold a guard of the same name.
    Guard,
}

/// One way in which two operations conflict: a clause of the pair's condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clause {
    /// How.
    pub kind: ConflictKind,
    /// On rows of this table.
    pub table: TableId,
    /// The columns that both touch; empty where it is about which rows there are.
    pub columns: Vec<ColumnIndex>,
    /// Keys of the first and of the second that are equal wherever it holds.
    pub equal: Vec<(Key, Key)>,
}

/// The condition under which operations of two types conflict: a disjunction, satisfiable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Indexes into [`crate::Plan::entries`], the lower first. The same twice: two operations of one type.
    pub types: (usize, usize),
    /// Its clauses.
    pub clauses: Vec<Clause>,
    /// Whether the chosen parameters keep every clause on one server (of types with several parameters: where
    /// these are routed to one). What is not kept costs the weights of both.
    pub is_kept: bool,
}

/// What is found for one transaction type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionedType {
    /// Its class.
    pub class: OperationClass,
    /// The parameters that route it, the first first. Empty: any server runs it.
    pub parameters: Vec<usize>,
    /// Whether other operations find it by keys that it generates: these have to be routed to the server
    /// that it runs on.
    pub generates: bool,
    /// How much it weighs: how often it is called, beside the others.
    pub weight: u64,
    /// Algorithm 1's cost of the conflicts that it has part in and that are not kept on one server.
    pub cost: u64,
    /// Whether some of its conflicts were not looked at, for there are more than
    /// [`crate::Limits::conditions_max`]: then it counts as conflicting.
    pub unexamined: bool,
}

/// How operations are partitioned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partitioning {
    /// One a transaction type, in the order of [`crate::Plan::entries`].
    pub types: Vec<PartitionedType>,
    /// Every pair of types that conflict, in order.
    pub conflicts: Vec<Conflict>,
    /// Algorithm 1's cost of the parameters chosen, one a type.
    pub cost: u64,
    /// Whether no other choice of one parameter a type costs less: all were compared, or excluded together
    /// because they cannot be better.
    pub is_exhaustive: bool,
    /// Where the tables' rows are, indexed by table.
    pub tables: Vec<Held>,
    /// Of how many servers reports tell, where that is asked for.
    pub sites: Option<u32>,
}

/// Which servers have a table's rows, as they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Held {
    /// Nobody writes it: all have it.
    Immutable,
    /// It is written by types alone that conflict with nobody: each server has what was written there.
    Anywhere,
    /// Each server has the rows whose column is routed to it: what local operations write stays there.
    By(ColumnIndex),
    /// Each server has the rows that its operations wrote, which no single column tells.
    Apart,
    /// All have it: global operations write it, and what they write is applied everywhere.
    Everywhere,
    /// Local operations write some of its columns or rows and global ones others: what the global ones write is
    /// applied everywhere.
    Mixed,
}

impl Partitioning {
    /// The types of a class.
    pub fn count(&self, class: OperationClass) -> usize {
        self.types.iter().filter(|t| t.class == class).count()
    }

    /// What the types of a class weigh together.
    pub fn weight(&self, class: OperationClass) -> u64 {
        let of = self.types.iter().filter(|t| t.class == class);
        of.fold(0, |sum, t| sum.saturating_add(t.weight))
    }

    /// The conflicts that a type has part in.
    pub fn of_type(&self, owner: usize) -> impl Iterator<Item = &Conflict> {
        let has_part = move |c: &&Conflict| c.types.0 == owner || c.types.1 == owner;
        self.conflicts.iter().filter(has_part)
    }
}

impl Clause {
    /// Whether it is about something that the first (or the second) of the two writes.
    pub fn is_written_by(&self, first: bool) -> bool {
        match self.kind {
            ConflictKind::ReadsFrom => !first,
            ConflictKind::IsReadBy => first,
            ConflictKind::BothWrite | ConflictKind::Guard => true,
        }
    }

    /// Whether operations routed by these keys meet on one server alone.
    pub fn is_kept(&self, by_one: &[Key], by_other: &[Key]) -> bool {
        let both = |(one, other): &(Key, Key)| by_one.contains(one) && by_other.contains(other);
        self.equal.iter().any(both)
    }
}

/// The keys that operations with these parameters are routed by: what they generate goes where they run.
pub(crate) fn keys(parameters: &[usize]) -> Vec<Key> {
    let parameters = parameters.iter().map(|p| Key::Parameter(*p));
    parameters.chain([Key::Generated]).collect()
}
