//! §3.2's classes for given parameters, and several parameters for a type (§3.1).
//!
//! A type's operations are *local* if no operation of another server reads or writes what they write: each clause
//! about something that the type writes requires that a key of its own equals a key of the other, so that both run
//! on one server. A local operation may read what global operations write, for that is applied everywhere.
//!
//! A type that is global by one parameter may be local by several, since each keeps other clauses on one server.
//! All such types get all their parameters; those that stay global get their one parameter back, until nothing
//! changes (the parameters of one may make another local). Then parameters that make no difference are removed. A
//! type that was local with one parameter stays local, since the first parameters are kept.

use anabranch_sql::summary::{Role, Term};
use anabranch_types::{ColumnIndex, TableId};

use super::access::{Access, AccessedPart};
use super::conflict::Conflicts;
use super::{
    Clause, Conflict, Distribution, Key, OperationClass, PartitionedType, Partitioning, Spread,
    WrittenParts, keys,
};
use crate::footprint::{Action, Footprint};

/// Where operations write: an option of the analysis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Writes {
    /// Those that no operation of another server depends on write on one server alone.
    #[default]
    Partitioned,
    /// Each that writes is global, so that every server has every row and none is lost with a server. The paper's baseline
    /// (§7.2).
    Everywhere,
}

/// The most parameters that route one type.
const PARAMETERS_MAX: usize = 4;

/// The parameters that the search chose.
pub(crate) struct ChosenParameters<'a> {
    /// Per type, its parameter.
    pub(crate) parameters: Vec<Option<usize>>,
    pub(crate) weights: &'a [u64],
    pub(crate) cost: u64,
    pub(crate) is_exhaustive: bool,
    /// The number of servers that reports estimate for, if requested.
    pub(crate) sites: Option<u32>,
    pub(crate) writes: Writes,
}

/// Classifies types by the chosen parameters, and adds parameters that make a type local.
pub(crate) fn classify(
    footprint: &Footprint<'_>,
    accesses: &[Access],
    mut conflicts: Conflicts,
    chosen: ChosenParameters<'_>,
) -> Partitioning {
    let count = footprint.types.len();
    let one = chosen
        .parameters
        .iter()
        .map(|p| p.iter().copied().collect());
    let mut parameters: Vec<Vec<usize>> = one.collect();
    let stays_global = |owner: usize| {
        chosen.writes == Writes::Everywhere && accesses.iter().any(|a| a.owner == owner && a.writes)
    };
    if chosen.writes == Writes::Everywhere {
        // Every server has every row, so no operation has to be routed.
        parameters.iter_mut().for_each(Vec::clear);
    }
    let known = |owner: usize| {
        let unknown = footprint.types[owner].summary.unknown.is_some();
        !unknown && !conflicts.unexamined.contains(&owner) && !stays_global(owner)
    };
    let is_known: Vec<bool> = (0..count).map(known).collect();
    let of_types: Vec<Vec<usize>> = (0..count)
        .map(|owner| {
            let pairs = conflicts.pairs.iter().enumerate();
            let mine = pairs.filter(|(_, c)| c.types.0 == owner || c.types.1 == owner);
            mine.map(|(place, _)| place).collect()
        })
        .collect();
    let classifier = Classifier {
        pairs: &conflicts.pairs,
        of_types: &of_types,
        is_known: &is_known,
    };
    classifier.add_parameters(&mut parameters);
    classifier.drop_parameters(&mut parameters);
    let classes: Vec<OperationClass> = (0..count)
        .map(|t| classifier.class(t, &parameters))
        .collect();
    let generates: Vec<bool> = (0..count)
        .map(|t| classifier.generates(t, &parameters))
        .collect();
    for pair in &mut conflicts.pairs {
        let (a, b) = pair.types;
        let (by_a, by_b) = (keys(&parameters[a]), keys(&parameters[b]));
        pair.is_kept = pair.clauses.iter().all(|c| c.is_kept(&by_a, &by_b));
    }
    let cost_of = |owner: usize| {
        let mine = of_types[owner].iter().map(|p| &conflicts.pairs[*p]);
        let crossing = mine.filter(|c| !c.is_kept);
        crossing.fold(0u64, |sum, c| {
            let (a, b) = c.types;
            sum.saturating_add(chosen.weights[a].saturating_add(chosen.weights[b]))
        })
    };
    let types: Vec<PartitionedType> = (0..count)
        .map(|owner| PartitionedType {
            class: classes[owner],
            parameters: parameters[owner].clone(),
            generates: generates[owner],
            weight: chosen.weights[owner],
            cost: cost_of(owner),
            unexamined: conflicts.unexamined.contains(&owner),
        })
        .collect();
    let written = footprint.catalog.schema.tables.iter();
    let written = written
        .map(|table| written_parts(footprint, accesses, &types, table.id))
        .collect();
    let tables = footprint.catalog.schema.tables.iter();
    let tables = tables
        .map(|table| distribution(footprint, accesses, &types, table.id))
        .collect();
    Partitioning {
        types,
        conflicts: conflicts.pairs,
        cost: chosen.cost,
        is_exhaustive: chosen.is_exhaustive,
        tables,
        written,
        sites: chosen.sites,
    }
}

struct Classifier<'a> {
    pairs: &'a [Conflict],
    of_types: &'a [Vec<usize>],
    /// Whether each type's accesses are known completely. False also for types that are global anyway.
    is_known: &'a [bool],
}

impl Classifier<'_> {
    fn class(&self, owner: usize, parameters: &[Vec<usize>]) -> OperationClass {
        if !self.is_known[owner] {
            return OperationClass::Global;
        }
        if self.of_types[owner].is_empty() {
            return OperationClass::Commutative;
        }
        let mine = self.of_types[owner].iter().map(|p| &self.pairs[*p]);
        let is_kept = mine.into_iter().all(|conflict| {
            conflict.clauses.iter().all(|clause| {
                let first = conflict.types.0 == owner;
                let second = conflict.types.1 == owner;
                (!first || self.stays(clause, true, owner, conflict.types.1, parameters))
                    && (!second || self.stays(clause, false, owner, conflict.types.0, parameters))
            })
        });
        match (is_kept, parameters[owner].len()) {
            (false, _) => OperationClass::Global,
            (true, 0 | 1) => OperationClass::Local,
            (true, _) => OperationClass::LocalOrGlobal,
        }
    }

    /// Whether what `owner` writes by this clause, in which it is the first or the second type, is accessed on its
    /// own server alone, where its parameters agree.
    fn stays(
        &self,
        clause: &Clause,
        first: bool,
        owner: usize,
        other: usize,
        parameters: &[Vec<usize>],
    ) -> bool {
        if !clause.is_written_by(first) {
            return true;
        }
        let mine = keys(&parameters[owner]);
        let kept = |theirs: &[Key]| match first {
            true => clause.is_kept(&mine, theirs),
            false => clause.is_kept(theirs, &mine),
        };
        let theirs = &parameters[other];
        // If the other's parameters do not agree, it runs where its first parameter is routed to.
        kept(&keys(theirs)) && kept(&keys(&theirs[..theirs.len().min(1)]))
    }

    fn add_parameters(&self, parameters: &mut [Vec<usize>]) {
        let count = parameters.len();
        let mut given: Vec<usize> = Vec::new();
        for owner in 0..count {
            if self.is_known[owner] && self.class(owner, parameters) == OperationClass::Global {
                given.push(owner);
            }
        }
        let before: Vec<Vec<usize>> = parameters.to_vec();
        for owner in &given {
            for parameter in self.useful(*owner) {
                let mine = &mut parameters[*owner];
                if mine.len() < PARAMETERS_MAX && !mine.contains(&parameter) {
                    mine.push(parameter);
                }
            }
        }
        loop {
            let stays = |owner: &usize| self.class(*owner, parameters) == OperationClass::Global;
            let (global, rest): (Vec<usize>, Vec<usize>) = given.into_iter().partition(stays);
            given = rest;
            if global.is_empty() {
                return;
            }
            for owner in global {
                parameters[owner].clone_from(&before[owner]);
            }
        }
    }

    /// The parameters of a type that some clause requires to equal a key, in order.
    fn useful(&self, owner: usize) -> Vec<usize> {
        let mut found = Vec::new();
        for conflict in self.of_types[owner].iter().map(|p| &self.pairs[*p]) {
            for (one, other) in conflict.clauses.iter().flat_map(|c| &c.equal) {
                let mine = [(conflict.types.0, one), (conflict.types.1, other)];
                for (_, key) in mine.into_iter().filter(|(of, _)| *of == owner) {
                    if let Key::Parameter(parameter) = key {
                        found.push(*parameter);
                    }
                }
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Removes parameters, the last first, that keep no clause on one server.
    fn drop_parameters(&self, parameters: &mut [Vec<usize>]) {
        for owner in 0..parameters.len() {
            for place in (0..parameters[owner].len()).rev() {
                let before = self.kept(owner, parameters);
                let parameter = parameters[owner].remove(place);
                let after = self.kept(owner, parameters);
                let same = |(before, after): (&[bool; 3], &[bool; 3])| {
                    before
                        .iter()
                        .zip(after)
                        .all(|(before, after)| !before || *after)
                };
                if !before.iter().zip(&after).all(same) {
                    parameters[owner].insert(place, parameter);
                }
            }
        }
    }

    /// For each clause of a type's conflicts: whether it stays on one server where all parameters agree, and where
    /// those of the first or of the second do not.
    fn kept(&self, owner: usize, parameters: &[Vec<usize>]) -> Vec<[bool; 3]> {
        let mut found = Vec::new();
        for conflict in self.of_types[owner].iter().map(|p| &self.pairs[*p]) {
            let all = |of: usize| keys(&parameters[of]);
            let first = |of: usize| keys(&parameters[of][..parameters[of].len().min(1)]);
            let (a, b) = conflict.types;
            let by = [(all(a), all(b)), (first(a), all(b)), (all(a), first(b))];
            let kept = |clause: &Clause| by.each_ref().map(|(a, b)| clause.is_kept(a, b));
            found.extend(conflict.clauses.iter().map(kept));
        }
        found
    }

    /// Whether some clause stays on one server only by a key that the type generates.
    fn generates(&self, owner: usize, parameters: &[Vec<usize>]) -> bool {
        self.of_types[owner]
            .iter()
            .map(|p| &self.pairs[*p])
            .any(|c| {
                let by = |of: usize| keys(&parameters[of]);
                c.clauses
                    .iter()
                    .flat_map(|clause| &clause.equal)
                    .any(|(one, other)| {
                        let used = by(c.types.0).contains(one) && by(c.types.1).contains(other);
                        let mine = (c.types.0 == owner && *one == Key::Generated)
                            || (c.types.1 == owner && *other == Key::Generated);
                        used && mine
                    })
            })
    }
}

/// Where the writes to a table's rows and columns are.
fn written_parts(
    footprint: &Footprint<'_>,
    accesses: &[Access],
    types: &[PartitionedType],
    table: TableId,
) -> WrittenParts {
    let mut found = WrittenParts {
        rows: Spread::Unwritten,
        columns: vec![Spread::Unwritten; footprint.table(table).columns.len()],
        key: None,
        is_found_by_key: false,
    };
    for access in accesses.iter().filter(|a| a.table == table && a.writes) {
        let spread = match types[access.owner].class {
            OperationClass::Global => Spread::Everywhere,
            _ => Spread::OwnServer,
        };
        let AccessedPart::Row { columns, rows } = &access.part else {
            continue;
        };
        // Inserting or deleting a row writes all of its columns, too: that counts for the row.
        if *rows {
            found.rows = found.rows.max(spread);
            continue;
        }
        for column in columns {
            let of = &mut found.columns[column.index()];
            *of = spread.max(*of);
        }
    }
    if found.rows == Spread::OwnServer || found.columns.contains(&Spread::OwnServer) {
        found.key = key_column(footprint, types, table, |class| {
            class != OperationClass::Global
        });
        found.is_found_by_key = found
            .key
            .is_some_and(|key| is_found_by(footprint, types, table, key, &found));
    }
    found
}

/// Whether each operation that is not global and accesses what one server alone has of a table finds it by this column,
/// which routes the operation. One that is routed by another column finds it on that column's server, which is the same
/// only as long as no row is handed over.
fn is_found_by(
    footprint: &Footprint<'_>,
    types: &[PartitionedType],
    table: TableId,
    key: ColumnIndex,
    written: &WrittenParts,
) -> bool {
    let is_own = |column: ColumnIndex| written.columns[column.index()] == Spread::OwnServer;
    let accesses_own = |action: &&Action| {
        let access = &action.access;
        written.rows == Spread::OwnServer
            || access.columns_read.iter().any(|column| is_own(*column))
            || access.writes.iter().any(|write| is_own(write.column))
    };
    let is_routed = |action: &Action| match action.fixed(key) {
        Some(Term::Parameter(parameter)) => types[action.owner].parameters.contains(parameter),
        Some(Term::Generated) => action.access.role == Role::Insert,
        _ => false,
    };
    footprint
        .on_table(table)
        .filter(|action| types[action.owner].class != OperationClass::Global)
        .filter(accesses_own)
        .all(is_routed)
}

/// Which servers have a table's rows.
fn distribution(
    footprint: &Footprint<'_>,
    accesses: &[Access],
    types: &[PartitionedType],
    table: TableId,
) -> Distribution {
    let writing: Vec<&Access> = accesses
        .iter()
        .filter(|a| a.table == table && a.writes)
        .collect();
    let class = |access: &&&Access| types[access.owner].class;
    let is_spread = |a: &&&Access| {
        matches!(
            class(a),
            OperationClass::Global | OperationClass::LocalOrGlobal
        )
    };
    if writing.is_empty() {
        return Distribution::Immutable;
    }
    let spread = writing.iter().filter(is_spread).count();
    if spread == writing.len() {
        return Distribution::Everywhere;
    }
    if spread > 0 {
        return Distribution::Mixed;
    }
    if writing
        .iter()
        .all(|a| class(&a) == OperationClass::Commutative)
    {
        return Distribution::Anywhere;
    }
    let column = key_column(footprint, types, table, |_| true);
    column.map_or(Distribution::Scattered, Distribution::By)
}

/// The column by which the writing types of these classes find their rows, so that its value tells the server that they
/// run on.
fn key_column(
    footprint: &Footprint<'_>,
    types: &[PartitionedType],
    table: TableId,
    counts: impl Fn(OperationClass) -> bool,
) -> Option<ColumnIndex> {
    let source = |column: ColumnIndex| {
        let mut actions = footprint
            .on_table(table)
            .filter(|a| a.access.role != Role::Read && counts(types[a.owner].class));
        let by_parameter = |action: &Action| match action.fixed(column) {
            Some(Term::Parameter(p)) => {
                let routed = &types[action.owner].parameters;
                routed.contains(p).then_some(true)
            }
            Some(Term::Generated) => {
                let described = &footprint.table(table).columns[column.index()];
                described.data_type.is_integer().then_some(false)
            }
            _ => None,
        };
        let settled = footprint.is_settled(table, column);
        // If only generated keys fix the row, the rows are those of any server.
        let all = settled.then(|| actions.try_fold(false, |any, a| Some(any | by_parameter(a)?)));
        all.flatten()
    };
    let columns = 0..footprint.table(table).columns.len();
    let columns: Vec<ColumnIndex> = columns.map(|c| ColumnIndex(c as u16)).collect();
    let by = |parameter: bool| columns.iter().find(|c| source(**c) == Some(parameter));
    by(true).or_else(|| by(false)).copied()
}
