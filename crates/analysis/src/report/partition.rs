//! Operation partitioning as text, as JSON and as a section of the page.

use std::fmt::Write;

use anabranch_sql::catalog::Catalog;
use anabranch_sql::summary::TransactionSummary;
use anabranch_types::markup::escaped;
use anabranch_types::{ColumnIndex, TableId};
use serde::Serialize;

use super::layout::{hanging, heading, paragraph};
use super::notes::count;
use crate::partition::{
    Clause, Conflict, ConflictKind, Distribution, Key, OperationClass, PartitionedType,
    Partitioning,
};

/// A type's conflicts beyond this many are only counted.
const SHOWN_MAX: usize = 4;

const CLASSES: [OperationClass; 4] = [
    OperationClass::Commutative,
    OperationClass::Local,
    OperationClass::LocalOrGlobal,
    OperationClass::Global,
];

/// The partitioning with the catalog and summaries that give its indexes names.
#[derive(Clone, Copy)]
pub(super) struct PartitioningView<'a> {
    pub(super) found: &'a Partitioning,
    pub(super) catalog: &'a Catalog,
    pub(super) summaries: &'a [TransactionSummary],
}

/// The name of a class in reports.
pub fn class_name(class: OperationClass) -> &'static str {
    match class {
        OperationClass::Commutative => "commutative",
        OperationClass::Local => "local",
        OperationClass::LocalOrGlobal => "local-or-global",
        OperationClass::Global => "global",
    }
}

fn mark(class: OperationClass) -> char {
    match class {
        OperationClass::Commutative => '○',
        OperationClass::Local => '◐',
        OperationClass::LocalOrGlobal => '◑',
        OperationClass::Global => '●',
    }
}

impl PartitioningView<'_> {
    fn name(&self, owner: usize) -> &str {
        &self.summaries[owner].name
    }

    fn parameter(&self, owner: usize, parameter: usize) -> &str {
        let found = self.summaries[owner].parameters.get(parameter);
        found.map_or("a parameter", |(name, _)| name.as_str())
    }

    fn key(&self, owner: usize, key: Key) -> &str {
        match key {
            Key::Parameter(parameter) => self.parameter(owner, parameter),
            Key::Generated => "generated",
        }
    }

    fn table(&self, table: TableId) -> &str {
        &self.catalog.schema.table(table).name
    }

    fn column(&self, table: TableId, column: ColumnIndex) -> &str {
        &self.catalog.schema.table(table).columns[column.index()].name
    }

    /// The routing of a type's calls, in words.
    fn routed(&self, owner: usize) -> String {
        let of = &self.found.types[owner];
        let names: Vec<&str> = of
            .parameters
            .iter()
            .map(|p| self.parameter(owner, *p))
            .collect();
        match (names.as_slice(), of.generates) {
            ([], false) => "any server".into(),
            ([], true) => "any server, which generates keys that are routed to itself".into(),
            (names, false) => format!("routed by {}", names.join(" and ")),
            (names, true) => format!(
                "routed by {}; generates keys that are routed to the same server",
                names.join(" and ")
            ),
        }
    }

    /// The cost of a type's call beyond running it once.
    fn cost(&self, of: &PartitionedType) -> &'static str {
        match of.class {
            OperationClass::Commutative => {
                "none: it runs at once, and sends nothing to other servers"
            }
            OperationClass::Local if of.parameters.is_empty() => {
                "none: it runs at once where it is called"
            }
            OperationClass::Local => {
                "none on its server, where it runs at once; a redirection from another server"
            }
            OperationClass::LocalOrGlobal => {
                "none where its parameters are routed to one server (with values spread evenly over n servers and \
                 two parameters, one call in n); otherwise it waits for its turn and is applied on all servers"
            }
            OperationClass::Global => {
                "it waits for its turn among all servers, half a round on average; its writes are applied on \
                 each server"
            }
        }
    }

    /// The summary above the table.
    fn summary(&self) -> String {
        let found = self.found;
        let of = |class: &OperationClass| format!("{} {}", found.count(*class), class_name(*class));
        let classes: Vec<String> = CLASSES.iter().map(of).collect();
        let mut text = format!(
            "{}: {}.",
            count(found.types.len(), "transaction type", "transaction types"),
            classes.join(", ")
        );
        let total: u64 = CLASSES.iter().map(|c| found.weight(*c)).sum();
        if found.types.iter().any(|t| t.weight != 1) && total > 0 {
            let share = |class: &OperationClass| {
                let tenths = u128::from(found.weight(*class)) * 1000 / u128::from(total);
                format!("{}.{}% {}", tenths / 10, tenths % 10, class_name(*class))
            };
            let shares: Vec<String> = CLASSES.iter().map(share).collect();
            let _ = write!(text, " By weight: {}.", shares.join(", "));
        }
        if let Some(of) = found.sites.map(|sites| found.on(sites)) {
            let servers = count(of.count as usize, "server", "servers");
            let _ = write!(
                text,
                " On {servers} with calls spread evenly, {:.1}% of the calls run at once, and the servers together have \
                 at most {:.1} times the throughput of one.",
                of.local_share * 100.0,
                of.capacity
            );
        }
        let kept = found.conflicts.iter().filter(|c| c.is_kept).count();
        let _ = write!(
            text,
            " {kept} of {} {} on one server, by equal keys; the others cost {} with one parameter per type.",
            count(
                found.conflicts.len(),
                "pair that conflicts",
                "pairs that conflict"
            ),
            if kept == 1 { "stays" } else { "stay" },
            found.cost
        );
        text.push_str(match found.is_exhaustive {
            true => " No other choice costs less.",
            false => {
                " Not every choice was compared, another may cost less; --choices-max compares more."
            }
        });
        let unexamined = found.types.iter().filter(|t| t.unexamined).count();
        if unexamined > 0 {
            let _ = write!(
                text,
                " {} not examined for all conflicts, and {} as global; --conditions-max examines more.",
                count(unexamined, "type was", "types were"),
                if unexamined == 1 { "counts" } else { "count" }
            );
        }
        text
    }

    /// The conflicts of a type that cross servers, each with the other type, as seen from this type.
    fn crossing(&self, owner: usize) -> Vec<String> {
        let mut conflicts: Vec<(String, String)> = Vec::new();
        for conflict in self.found.of_type(owner).filter(|c| !c.is_kept) {
            let (one, other) = conflict.types;
            let beside = if one == owner { other } else { one };
            let name = match beside == owner {
                true => "another call of the same type",
                false => self.name(beside),
            };
            for clause in self.crossing_clauses(conflict) {
                let reads = match clause.kind {
                    ConflictKind::ReadsFrom => one == owner,
                    ConflictKind::IsReadBy => one != owner,
                    ConflictKind::BothWrite | ConflictKind::Guard => false,
                };
                let both = clause.kind == ConflictKind::BothWrite;

                let what = match (both, reads) {
                    (true, _) => format!("{}, which both write", self.what(clause)),
                    (_, true) => format!("{}, which this type reads", self.what(clause)),
                    (_, false) => format!("{}, which the other type reads", self.what(clause)),
                };
                let conflict = (name.to_owned(), what);
                if !conflicts.contains(&conflict) {
                    conflicts.push(conflict);
                }
            }
        }
        let more = conflicts.len().saturating_sub(SHOWN_MAX);
        conflicts.truncate(SHOWN_MAX);
        let line = |(name, what): (String, String)| format!("{name}: {what}");
        let mut lines: Vec<String> = conflicts.into_iter().map(line).collect();
        if more > 0 {
            lines.push(format!("and {more} more"));
        }
        lines
    }

    fn crossing_clauses<'c>(&self, conflict: &'c Conflict) -> impl Iterator<Item = &'c Clause> {
        let keys = |owner: usize| crate::partition::keys(&self.found.types[owner].parameters);
        let (one, other) = (keys(conflict.types.0), keys(conflict.types.1));
        let clauses = conflict.clauses.iter();
        clauses.filter(move |clause| !clause.is_kept(&one, &other))
    }

    /// The columns or rows that a clause is about.
    fn what(&self, clause: &Clause) -> String {
        let table = self.table(clause.table);
        if clause.columns.is_empty() {
            return format!("the set of rows of {table}");
        }
        let columns = clause.columns.iter().take(3);
        let names: Vec<&str> = columns.map(|c| self.column(clause.table, *c)).collect();
        let more = clause.columns.len() - names.len();
        match more {
            0 => format!("{table}.({})", names.join(", ")),
            more => format!("{table}.({}, {more} more)", names.join(", ")),
        }
    }

    /// The servers that have a table's rows, in words.
    fn held(&self, table: TableId) -> String {
        match &self.found.tables[table.index()] {
            Distribution::Immutable => "on every server; no operation writes it".into(),
            Distribution::Anywhere => {
                "each server has its own writes, which operations elsewhere do not need".into()
            }
            Distribution::By(column) => format!(
                "each row on the server that its {} is routed to",
                self.column(table, *column)
            ),
            Distribution::Scattered => {
                "each row on the server of the operations that wrote it".into()
            }
            Distribution::Everywhere => "on every server; writes are applied on all".into(),
            Distribution::Mixed => {
                "on every server, except writes of local operations, which stay on their server"
                    .into()
            }
        }
    }
}

/// Writes the section of the text report.
pub(super) fn put_text(view: PartitioningView<'_>, out: &mut String) {
    heading(out, "Operation partitioning");
    paragraph(out, 2, &view.summary());
    out.push('\n');
    let names = view.summaries.iter().map(|s| s.name.chars().count());
    let wide = names.max().unwrap_or(0);
    for (owner, of) in view.found.types.iter().enumerate() {
        let start = format!(
            "{} {:wide$}  {:<15}  ",
            mark(of.class),
            view.name(owner),
            class_name(of.class)
        );
        hanging(out, &start, &view.routed(owner));
        hanging(out, "    cost        ", view.cost(of));
        for (place, line) in view.crossing(owner).iter().enumerate() {
            let label = if place == 0 {
                "    conflicts   "
            } else {
                "                "
            };
            hanging(out, label, line);
        }
    }
    out.push('\n');
    let tables = &view.catalog.schema.tables;
    let wide = tables.iter().map(|t| t.name.chars().count()).max();
    let wide = wide.unwrap_or(0);
    for table in tables {
        hanging(
            out,
            &format!("  {:wide$}  ", table.name),
            &view.held(table.id),
        );
    }
    out.push('\n');
}

/// Writes the section of the page.
pub(super) fn put_html(view: PartitioningView<'_>, out: &mut String) {
    let found = view.found;
    let _ = writeln!(
        out,
        "<section>\n<h2>Operation partitioning</h2>\n<p>{}</p>",
        escaped(&view.summary())
    );
    put_bar(found, out);
    out.push_str(
        "<div class=\"scroll\"><table>\n<tr><th>type</th><th>class</th><th>routing</th><th>cost</th>\
         <th>conflicts across servers</th></tr>\n",
    );
    for (owner, of) in found.types.iter().enumerate() {
        let lines: Vec<String> = view.crossing(owner).iter().map(|l| escaped(l)).collect();
        let _ = writeln!(
            out,
            "<tr><td><a href=\"#type-{owner}\">{}</a></td><td class=\"{}\">{} {}</td><td>{}</td>\
             <td>{}</td><td>{}</td></tr>",
            escaped(view.name(owner)),
            colour(of.class),
            mark(of.class),
            class_name(of.class),
            escaped(&view.routed(owner)),
            escaped(view.cost(of)),
            lines.join("<br>"),
        );
    }
    out.push_str("</table></div>\n");
    put_pairs(view, out);
    out.push_str("<div class=\"scroll\"><table>\n<tr><th>table</th><th>rows are</th></tr>\n");
    for table in &view.catalog.schema.tables {
        let _ = writeln!(
            out,
            "<tr><td>{}</td><td>{}</td></tr>",
            escaped(&table.name),
            escaped(&view.held(table.id))
        );
    }
    out.push_str("</table></div>\n</section>\n");
}

/// Pairs of more types than this are not drawn.
const DRAWN_MAX: usize = 60;

/// The side of a pair's square, in pixels.
const CELL: usize = 18;

fn colour(class: OperationClass) -> &'static str {
    match class {
        OperationClass::Commutative => "free",
        OperationClass::Local | OperationClass::LocalOrGlobal => "local",
        OperationClass::Global => "global",
    }
}

fn fill(class: OperationClass) -> &'static str {
    match class {
        OperationClass::Commutative => "#00704f",
        OperationClass::Local => "#d9a441",
        OperationClass::LocalOrGlobal => "#b9722e",
        OperationClass::Global => "#b3261e",
    }
}

/// The colour of a class's text on white.
fn ink(class: OperationClass) -> &'static str {
    match class {
        OperationClass::Local | OperationClass::LocalOrGlobal => "#8a5a00",
        other => fill(other),
    }
}

/// Writes the classes' shares of all calls as a bar.
fn put_bar(found: &Partitioning, out: &mut String) {
    let total: u64 = CLASSES.iter().map(|c| found.weight(*c)).sum();
    if total == 0 {
        return;
    }
    out.push_str(
        "<svg viewBox=\"0 0 1000 26\" role=\"img\" aria-label=\"the classes' shares of calls\">",
    );
    let mut left = 0.0;
    for class in CLASSES {
        let weight = found.weight(class);
        let width = 1000.0 * weight as f64 / total as f64;
        if weight > 0 {
            let _ = write!(
                out,
                "<rect x=\"{left:.1}\" width=\"{width:.1}\" height=\"26\" fill=\"{}\"><title>{}: {:.1}% of \
                 calls</title></rect>",
                fill(class),
                class_name(class),
                width / 10.0
            );
        }
        left += width;
    }
    out.push_str("</svg>\n");
}

/// Writes every pair of types that conflict as a square, by whether the conflict stays on one server.
fn put_pairs(view: PartitioningView<'_>, out: &mut String) {
    let count = view.found.types.len();
    if view.found.conflicts.is_empty() || count > DRAWN_MAX {
        return;
    }
    let names = view.summaries.iter().map(|s| s.name.chars().count());
    let margin = 20 + names.max().unwrap_or(0) * 8;
    let (width, height) = (margin + count * CELL + 10, count * CELL + 30);
    let _ = write!(
        out,
        "<p>Each square is a pair of types that conflict: pale where equal keys keep the conflict on one server, red \
         where it crosses servers. Point at a square to read why.</p>\n<figure class=\"scroll\"><svg width=\"{width}\" \
         height=\"{height}\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"pairs of types that \
         conflict\" font-size=\"13\">"
    );
    for owner in 0..count {
        let _ = write!(
            out,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\" fill=\"{}\">{} {}</text><text x=\"{}\" y=\"16\" \
             text-anchor=\"middle\" font-size=\"10\">{}</text>",
            margin - 8,
            20 + owner * CELL + CELL - 5,
            ink(view.found.types[owner].class),
            escaped(view.name(owner)),
            owner + 1,
            margin + owner * CELL + CELL / 2,
            owner + 1,
        );
    }
    for conflict in &view.found.conflicts {
        let (one, other) = conflict.types;
        let title = escaped(&view.pair(conflict));
        let places = [(one, other), (other, one)];
        let places = if one == other {
            &places[..1]
        } else {
            &places[..]
        };
        for (row, column) in places {
            let _ = write!(
                out,
                "<rect x=\"{}\" y=\"{}\" width=\"{side}\" height=\"{side}\" rx=\"3\" \
                 fill=\"{}\"><title>{title}</title></rect>",
                margin + column * CELL + 1,
                20 + row * CELL + 1,
                if conflict.is_kept {
                    "#e7d9b8"
                } else {
                    "#b3261e"
                },
                side = CELL - 2,
            );
        }
    }
    out.push_str("</svg></figure>\n");
}

impl PartitioningView<'_> {
    /// A pair that conflicts, in words.
    fn pair(&self, conflict: &Conflict) -> String {
        let (one, other) = conflict.types;
        let mut text = match one == other {
            true => format!("{} with itself", self.name(one)),
            false => format!("{} and {}", self.name(one), self.name(other)),
        };
        let clauses: Vec<String> = match conflict.is_kept {
            true => conflict.clauses.iter().map(|c| self.what(c)).collect(),
            false => self
                .crossing_clauses(conflict)
                .map(|c| self.what(c))
                .collect(),
        };
        let mut once: Vec<String> = Vec::new();
        for clause in clauses {
            if !once.contains(&clause) {
                once.push(clause);
            }
        }
        let meaning = if conflict.is_kept {
            "on one server"
        } else {
            "across servers"
        };
        let verb = if one == other {
            "conflicts"
        } else {
            "conflict"
        };
        let _ = write!(text, " {verb} {meaning}: {}", once.join("; "));
        text
    }
}

#[derive(Serialize)]
pub(super) struct Report<'a> {
    exhaustive: bool,
    cost: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    sites: Option<SitesReport>,
    types: Vec<TypeReport<'a>>,
    conflicts: Vec<ConflictReport<'a>>,
    tables: Vec<TableReport<'a>>,
}

#[derive(Serialize)]
struct SitesReport {
    count: u32,
    local_share: f64,
    capacity: f64,
}

#[derive(Serialize)]
struct TypeReport<'a> {
    transaction: &'a str,
    class: &'static str,
    parameters: Vec<&'a str>,
    generates: bool,
    weight: u64,
    cost: u64,
    unexamined: bool,
}

#[derive(Serialize)]
struct ConflictReport<'a> {
    transactions: [&'a str; 2],
    kept: bool,
    clauses: Vec<ClauseReport<'a>>,
}

#[derive(Serialize)]
struct ClauseReport<'a> {
    kind: &'static str,
    table: &'a str,
    columns: Vec<&'a str>,
    equal: Vec<[&'a str; 2]>,
}

#[derive(Serialize)]
struct TableReport<'a> {
    table: &'a str,
    held: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<&'a str>,
}

/// The partitioning, for JSON.
pub(super) fn report<'a>(view: &'a PartitioningView<'a>) -> Report<'a> {
    let clause = |conflict: &'a Conflict, clause: &'a Clause| ClauseReport {
        kind: match clause.kind {
            ConflictKind::ReadsFrom => "reads-from",
            ConflictKind::IsReadBy => "is-read-by",
            ConflictKind::BothWrite => "both-write",
            ConflictKind::Guard => "guard",
        },
        table: view.table(clause.table),
        columns: clause
            .columns
            .iter()
            .map(|c| view.column(clause.table, *c))
            .collect(),
        equal: clause
            .equal
            .iter()
            .map(|(a, b)| {
                let (one, other) = conflict.types;
                [view.key(one, *a), view.key(other, *b)]
            })
            .collect(),
    };
    Report {
        exhaustive: view.found.is_exhaustive,
        cost: view.found.cost,
        sites: view.found.sites.map(|sites| {
            let of = view.found.on(sites);
            SitesReport {
                count: of.count,
                local_share: of.local_share,
                capacity: of.capacity,
            }
        }),
        types: view
            .found
            .types
            .iter()
            .enumerate()
            .map(|(owner, of)| TypeReport {
                transaction: view.name(owner),
                class: class_name(of.class),
                parameters: of
                    .parameters
                    .iter()
                    .map(|p| view.parameter(owner, *p))
                    .collect(),
                generates: of.generates,
                weight: of.weight,
                cost: of.cost,
                unexamined: of.unexamined,
            })
            .collect(),
        conflicts: view
            .found
            .conflicts
            .iter()
            .map(|c| ConflictReport {
                transactions: [view.name(c.types.0), view.name(c.types.1)],
                kept: c.is_kept,
                clauses: c.clauses.iter().map(|of| clause(c, of)).collect(),
            })
            .collect(),
        tables: view
            .catalog
            .schema
            .tables
            .iter()
            .map(|table| {
                let (held, column) = match &view.found.tables[table.id.index()] {
                    Distribution::Immutable => ("immutable", None),
                    Distribution::Anywhere => ("own-writes", None),
                    Distribution::By(column) => ("by-column", Some(view.column(table.id, *column))),
                    Distribution::Scattered => ("by-writer", None),
                    Distribution::Everywhere => ("everywhere", None),
                    Distribution::Mixed => ("mixed", None),
                };
                TableReport {
                    table: &table.name,
                    held,
                    column,
                }
            })
            .collect(),
    }
}
