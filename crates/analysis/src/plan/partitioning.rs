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
    /// They conflict with no operation: any server runs them, and no other server needs their writes.
    Commutative,
    /// They run on the server that their parameter is routed to (any, without one), without the others: no
    /// operation of another server depends on what they do.
    Local,
    /// Local if all parameters are routed to one server, global otherwise: known when the operation arrives.
    LocalOrGlobal,
    /// They are ordered among all servers, and their writes are applied on all.
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
    /// The kind of conflict.
    pub kind: ConflictKind,
    /// The table of the rows.
    pub table: TableId,
    /// The columns that both access; empty if the conflict concerns which rows exist.
    pub columns: Vec<ColumnIndex>,
    /// Keys of the first and of the second that are equal whenever the clause holds.
    pub equal: Vec<(Key, Key)>,
}

/// The condition under which operations of two types conflict: a disjunction, satisfiable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Indexes into [`crate::Plan::entries`], the lower first. The same twice: two operations of one type.
    pub types: (usize, usize),
    /// Its clauses.
    pub clauses: Vec<Clause>,
    /// Whether the chosen parameters keep every clause on one server (for types with several parameters: if these
    /// are routed to one). Otherwise the conflict costs the weights of both types.
    pub is_kept: bool,
}

/// The result for one transaction type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionedType {
    /// Its class.
    pub class: OperationClass,
    /// The parameters that route it, the first one first. If empty, any server runs it.
    pub parameters: Vec<usize>,
    /// Whether other operations find its rows by keys that it generates: these have to be routed to the server that
    /// it runs on.
    pub generates: bool,
    /// Its weight: how often it is called, relative to the others.
    pub weight: u64,
    /// Algorithm 1's cost of its conflicts that are not kept on one server.
    pub cost: u64,
    /// Whether some of its conflicts were not examined, because there are more than
    /// [`crate::Limits::conditions_max`]: then it counts as conflicting.
    pub unexamined: bool,
}

/// How operations are partitioned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partitioning {
    /// One entry for each transaction type, in the order of [`crate::Plan::entries`].
    pub types: Vec<PartitionedType>,
    /// Every pair of types that conflict, in order.
    pub conflicts: Vec<Conflict>,
    /// Algorithm 1's cost of the chosen parameters, one for each type.
    pub cost: u64,
    /// Whether no other choice of one parameter for each type costs less: all were compared, or excluded together
    /// because they cannot be better.
    pub is_exhaustive: bool,
    /// Which servers have each table's rows, indexed by table.
    pub tables: Vec<Distribution>,
    /// Where the writes to each table's rows and columns are, indexed by table.
    pub written: Vec<WrittenParts>,
    /// The number of servers that reports estimate for, if requested.
    pub sites: Option<u32>,
}

/// Which servers have a table's rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Distribution {
    /// No type writes it: every server has it.
    Immutable,
    /// Only types write it that conflict with none: each server has what was written there.
    Anywhere,
    /// Each server has the rows whose column is routed to it: local operations write them there.
    By(ColumnIndex),
    /// Each server has the rows that its operations wrote, and no single column determines which.
    Scattered,
    /// Every server has it: global operations write it, and their writes are applied everywhere.
    Everywhere,
    /// Local operations write some of its columns or rows and global ones others: writes of the global ones are
    /// applied everywhere.
    Mixed,
}

/// Where the writes to the parts of a table are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenParts {
    /// Insertions and deletions.
    pub rows: Spread,
    /// Updates, by column.
    pub columns: Vec<Spread>,
    /// The column whose value tells the server of what one server alone has ([`Spread::OwnServer`]), if there is one.
    pub key: Option<ColumnIndex>,
    /// Whether all operations that run on one server find what one server alone has by the key alone, readers too: then
    /// it can be handed over to another server together with the key.
    pub is_found_by_key: bool,
}

/// Where the writes to a part of a table are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Spread {
    /// No type writes it.
    Unwritten,
    /// Only global operations write it: every server has it.
    Everywhere,
    /// Some operations write it on their server alone. Those of a local-or-global type may.
    OwnServer,
}

impl Partitioning {
    /// The types of a class.
    pub fn count(&self, class: OperationClass) -> usize {
        self.types.iter().filter(|t| t.class == class).count()
    }

    /// The total weight of the types of a class.
    pub fn weight(&self, class: OperationClass) -> u64 {
        let of = self.types.iter().filter(|t| t.class == class);
        of.fold(0, |sum, t| sum.saturating_add(t.weight))
    }

    /// The conflicts of a type.
    pub fn of_type(&self, owner: usize) -> impl Iterator<Item = &Conflict> {
        let has_part = move |c: &&Conflict| c.types.0 == owner || c.types.1 == owner;
        self.conflicts.iter().filter(has_part)
    }
}

impl Clause {
    /// Whether the first (or the second) of the two writes what the clause concerns.
    pub fn is_written_by(&self, first: bool) -> bool {
        match self.kind {
            ConflictKind::ReadsFrom => !first,
            ConflictKind::IsReadBy => first,
            ConflictKind::BothWrite | ConflictKind::Guard => true,
        }
    }

    /// Whether operations routed by these keys can meet on one server only.
    pub fn is_kept(&self, by_one: &[Key], by_other: &[Key]) -> bool {
        let both = |(one, other): &(Key, Key)| by_one.contains(one) && by_other.contains(other);
        self.equal.iter().any(both)
    }
}

/// The keys of operations with these parameters: generated keys are routed to where the operations run.
pub(crate) fn keys(parameters: &[usize]) -> Vec<Key> {
    let parameters = parameters.iter().map(|p| Key::Parameter(*p));
    parameters.chain([Key::Generated]).collect()
}
