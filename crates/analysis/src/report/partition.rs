//! How operations are partitioned, in words, as text, as JSON and on the page.

use std::fmt::Write;

use anabranch_sql::catalog::Catalog;
use anabranch_sql::summary::TransactionSummary;
use anabranch_types::markup::escaped;
use anabranch_types::{ColumnIndex, TableId};
use serde::Serialize;

use super::notes::count;
use super::text::{hanging, heading, paragraph};
use crate::partition::{
    Clause, Conflict, ConflictKind, Held, Key, OperationClass, PartitionedType, Partitioning,
};

/// With more conflicts than these the rest of a type's are counted.
const SHOWN_MAX: usize = 4;

const CLASSES: [OperationClass; 4] = [
    OperationClass::Commutative,
    OperationClass::Local,
    OperationClass::LocalOrGlobal,
    OperationClass::Global,
];

/// The partitioning with what its numbers mean.
#[derive(Clone, Copy)]
pub(super) struct Told<'a> {
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

impl Told<'_> {
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

    /// How calls of a type find their server.
    fn routed(&self, owner: usize) -> String {
        let of = &self.found.types[owner];
        let names: Vec<&str> = of
            .parameters
            .iter()
            .map(|p| self.parameter(owner, *p))
            .collect();
        match (names.as_slice(), of.generates) {
            ([], false) => "runs on any server".into(),
            ([], true) => "runs on any server, which generates keys that are routed to it".into(),
            (names, false) => format!("routed by {}", names.join(" and ")),
            (names, true) => format!(
                "routed by {}, generates keys that are routed there",
                names.join(" and ")
            ),
        }
    }

    /// What a call of a type costs besides running it once.
    fn pays(&self, of: &PartitionedType) -> &'static str {
        match of.class {
            OperationClass::Commutative => {
                "nothing: it runs at once, and no other server hears of it"
            }
            OperationClass::Local if of.parameters.is_empty() => {
                "nothing: it runs at once where it is called"
            }
            OperationClass::Local => {
                "nothing on its server, where it runs at once; elsewhere a redirection"
            }
            OperationClass::LocalOrGlobal => {
                "nothing where its parameters are routed to one server (spread evenly over n servers and \
                 two parameters, one call in n); else it waits for its turn and is applied on all"
            }
            OperationClass::Global => {
                "it waits for its turn among all servers, half a round on average, and what it writes is \
                 applied on each"
            }
        }
    }

    /// The sentences above all.
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
                " On {servers}, calls spread evenly, {:.1}% of them run at once, and together the servers take at most \
                 {:.1} times what one does.",
                of.at_once * 100.0,
                of.capacity
            );
        }
        let kept = found.conflicts.iter().filter(|c| c.is_kept).count();
        let _ = write!(
            text,
            " {kept} of {} {} on one server, by keys that are equal; the others cost {} with one \
             parameter a type.",
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
            false => " Not every choice was compared: another may cost less (--choices-max).",
        });
        let unexamined = found.types.iter().filter(|t| t.unexamined).count();
        if unexamined > 0 {
            let _ = write!(
                text,
                " Of {} not all conflicts were looked at (--conditions-max): they count as global.",
                count(unexamined, "type", "types")
            );
        }
        text
    }

    /// The clauses of a type that leave its server, told from its side, each with whom.
    fn crossing(&self, owner: usize) -> Vec<String> {
        let mut told: Vec<(String, String)> = Vec::new();
        for conflict in self.found.of_type(owner).filter(|c| !c.is_kept) {
            let (one, other) = conflict.types;
            let beside = if one == owner { other } else { one };
            for clause in self.crossing_clauses(conflict) {
                let reads = match clause.kind {
                    ConflictKind::ReadsFrom => one == owner,
                    ConflictKind::IsReadBy => one != owner,
                    ConflictKind::BothWrite | ConflictKind::Guard => false,
                };
                let both = clause.kind == ConflictKind::BothWrite;
                let whom = match beside == owner {
                    true => "another call of it".to_owned(),
                    false => self.name(beside).to_owned(),
                };
                let what = match (both, reads) {
                    (true, _) => format!("{}, which both write", self.what(clause)),
                    (_, true) => format!("{}, which it reads", self.what(clause)),
                    (_, false) => format!("{}, which is read there", self.what(clause)),
                };
                if !told.contains(&(whom.clone(), what.clone())) {
                    told.push((whom, what));
                }
            }
        }
        let more = told.len().saturating_sub(SHOWN_MAX);
        told.truncate(SHOWN_MAX);
        let line = |(whom, what): (String, String)| format!("{whom}: {what}");
        let mut lines: Vec<String> = told.into_iter().map(line).collect();
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

    /// What a clause is about.
    fn what(&self, clause: &Clause) -> String {
        let table = self.table(clause.table);
        if clause.columns.is_empty() {
            return format!("which rows {table} has");
        }
        let columns = clause.columns.iter().take(3);
        let names: Vec<&str> = columns.map(|c| self.column(clause.table, *c)).collect();
        let more = clause.columns.len() - names.len();
        match more {
            0 => format!("{table}.({})", names.join(", ")),
            more => format!("{table}.({}, {more} more)", names.join(", ")),
        }
    }

    fn held(&self, table: TableId) -> String {
        match &self.found.tables[table.index()] {
            Held::Immutable => "on every server; nobody writes it".into(),
            Held::Anywhere => "each server has what was written there, which nobody misses".into(),
            Held::By(column) => format!(
                "each row on the server that its {} is routed to",
                self.column(table, *column)
            ),
            Held::Apart => "each row on the server of those who wrote it".into(),
            Held::Everywhere => "on every server; what is written is applied on all".into(),
            Held::Mixed => {
                "on every server, but for what local operations write, which stays on theirs".into()
            }
        }
    }
}

/// The section of the text report.
pub(super) fn put_text(told: Told<'_>, out: &mut String) {
    heading(out, "Operation partitioning");
    paragraph(out, 2, &told.summary());
    out.push('\n');
    let names = told.summaries.iter().map(|s| s.name.chars().count());
    let wide = names.max().unwrap_or(0);
    for (owner, of) in told.found.types.iter().enumerate() {
        let start = format!(
            "{} {:wide$}  {:<15}  ",
            mark(of.class),
            told.name(owner),
            class_name(of.class)
        );
        hanging(out, &start, &told.routed(owner));
        hanging(out, "    pays        ", told.pays(of));
        for (place, line) in told.crossing(owner).iter().enumerate() {
            let label = if place == 0 {
                "    meets       "
            } else {
                "                "
            };
            hanging(out, label, line);
        }
    }
    out.push('\n');
    let tables = &told.catalog.schema.tables;
    let wide = tables.iter().map(|t| t.name.chars().count()).max();
    let wide = wide.unwrap_or(0);
    for table in tables {
        hanging(
            out,
            &format!("  {:wide$}  ", table.name),
            &told.held(table.id),
        );
    }
    out.push('\n');
}

/// The section of the page.
pub(super) fn put_html(told: Told<'_>, out: &mut String) {
    let found = told.found;
    let _ = writeln!(
        out,
        "<section>\n<h2>Operation partitioning</h2>\n<p>{}</p>",
        escaped(&told.summary())
    );
    put_bar(found, out);
    out.push_str(
        "<div class=\"scroll\"><table>\n<tr><th>type</th><th>class</th><th>runs</th><th>pays</th>\
         <th>meets on other servers</th></tr>\n",
    );
    for (owner, of) in found.types.iter().enumerate() {
        let lines: Vec<String> = told.crossing(owner).iter().map(|l| escaped(l)).collect();
        let _ = writeln!(
            out,
            "<tr><td><a href=\"#type-{owner}\">{}</a></td><td class=\"{}\">{} {}</td><td>{}</td>\
             <td>{}</td><td>{}</td></tr>",
            escaped(told.name(owner)),
            colour(of.class),
            mark(of.class),
            class_name(of.class),
            escaped(&told.routed(owner)),
            escaped(told.pays(of)),
            lines.join("<br>"),
        );
    }
    out.push_str("</table></div>\n");
    put_pairs(told, out);
    out.push_str("<div class=\"scroll\"><table>\n<tr><th>table</th><th>rows are</th></tr>\n");
    for table in &told.catalog.schema.tables {
        let _ = writeln!(
            out,
            "<tr><td>{}</td><td>{}</td></tr>",
            escaped(&table.name),
            escaped(&told.held(table.id))
        );
    }
    out.push_str("</table></div>\n</section>\n");
}

/// With more types than these, pairs are not drawn.
const DRAWN_MAX: usize = 60;

/// Side of a pair's square.
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

/// The same, to be read on white.
fn ink(class: OperationClass) -> &'static str {
    match class {
        OperationClass::Local | OperationClass::LocalOrGlobal => "#8a5a00",
        other => fill(other),
    }
}

/// The classes' shares of all calls, as a bar.
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

/// Every pair of types as a square: what conflicts, and whether it stays on one server.
fn put_pairs(told: Told<'_>, out: &mut String) {
    let count = told.found.types.len();
    if told.found.conflicts.is_empty() || count > DRAWN_MAX {
        return;
    }
    let names = told.summaries.iter().map(|s| s.name.chars().count());
    let margin = 20 + names.max().unwrap_or(0) * 8;
    let (width, height) = (margin + count * CELL + 10, count * CELL + 30);
    let _ = write!(
        out,
        "<p>Each square is a pair of types that conflict: pale where equal keys keep it on one server, red \
         where it crosses. Point at one to read why.</p>\n<figure class=\"scroll\"><svg width=\"{width}\" \
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
            ink(told.found.types[owner].class),
            escaped(told.name(owner)),
            owner + 1,
            margin + owner * CELL + CELL / 2,
            owner + 1,
        );
    }
    for conflict in &told.found.conflicts {
        let (one, other) = conflict.types;
        let title = escaped(&told.pair(conflict));
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

impl Told<'_> {
    /// A pair in words.
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
        let _ = write!(text, " meet {meaning}: {}", once.join("; "));
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
    at_once: f64,
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

/// The partitioning for programs.
pub(super) fn report<'a>(told: &'a Told<'a>) -> Report<'a> {
    let clause = |conflict: &'a Conflict, clause: &'a Clause| ClauseReport {
        kind: match clause.kind {
            ConflictKind::ReadsFrom => "reads-from",
            ConflictKind::IsReadBy => "is-read-by",
            ConflictKind::BothWrite => "both-write",
            ConflictKind::Guard => "guard",
        },
        table: told.table(clause.table),
        columns: clause
            .columns
            .iter()
            .map(|c| told.column(clause.table, *c))
            .collect(),
        equal: clause
            .equal
            .iter()
            .map(|(a, b)| {
                let (one, other) = conflict.types;
                [told.key(one, *a), told.key(other, *b)]
            })
            .collect(),
    };
    Report {
        exhaustive: told.found.is_exhaustive,
        cost: told.found.cost,
        sites: told.found.sites.map(|sites| {
            let of = told.found.on(sites);
            SitesReport {
                count: of.count,
                at_once: of.at_once,
                capacity: of.capacity,
            }
        }),
        types: told
            .found
            .types
            .iter()
            .enumerate()
            .map(|(owner, of)| TypeReport {
                transaction: told.name(owner),
                class: class_name(of.class),
                parameters: of
                    .parameters
                    .iter()
                    .map(|p| told.parameter(owner, *p))
                    .collect(),
                generates: of.generates,
                weight: of.weight,
                cost: of.cost,
                unexamined: of.unexamined,
            })
            .collect(),
        conflicts: told
            .found
            .conflicts
            .iter()
            .map(|c| ConflictReport {
                transactions: [told.name(c.types.0), told.name(c.types.1)],
                kept: c.is_kept,
                clauses: c.clauses.iter().map(|of| clause(c, of)).collect(),
            })
            .collect(),
        tables: told
            .catalog
            .schema
            .tables
            .iter()
            .map(|table| {
                let (held, column) = match &told.found.tables[table.id.index()] {
                    Held::Immutable => ("immutable", None),
                    Held::Anywhere => ("anywhere", None),
                    Held::By(column) => ("by-column", Some(told.column(table.id, *column))),
                    Held::Apart => ("apart", None),
                    Held::Everywhere => ("everywhere", None),
                    Held::Mixed => ("mixed", None),
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
