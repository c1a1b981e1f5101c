//! A number that moves towards its bound: what is left of it is split into shares, and each site takes from its own
//! (escrow; the bounds are those of coordination-avoidance.txt Table 2, row 13).
//!
//! In plain SQL: a table of shares with the bound of 0, and one more parameter, the site, which routes each call
//! that takes. The row keeps its number and its CHECK: the part that no site has been given. The total is this part
//! plus the shares; it is above the bound as long as the row's own part is and no share is below 0. The application
//! moves amounts between the row and the shares.
//!
//! A transaction that runs alone does the same as before if its site has all that is left above the bound. That is
//! certain if rows are neither inserted nor deleted, each change of the number adds an amount to one row by its
//! key, and every other read of the number lists it: the repair lists the sum instead.

use std::collections::BTreeSet;

use anabranch_sql::catalog::{Statement, describe};
use anabranch_sql::parse::{Lexeme, lexemes};
use anabranch_sql::source::Span;
use anabranch_sql::summary::{ResultUse, Role, WriteClass};
use anabranch_types::{ColumnIndex, DataType, TableId};

use super::body::Body;
use super::check::is_by_key_alone;
use super::edit::Edit;
use super::routing::one_more;
use super::tokens::{at, find, qualifier, span, with_condition};
use super::{Candidate, Considered, kind};
use crate::assertion::Atom;
use crate::footprint::{Action, Footprint};
use crate::invariant::{Content, Declared};
use crate::plan::{Confluence, Plan};

/// The column that names a share's site, and the parameter by which it is found.
const SITE: &str = "site";
const PARAMETER: &str = "p_site";

/// One candidate for each number that may fall below its bound.
pub(super) fn candidates(
    footprint: &Footprint<'_>,
    bodies: &[Body<'_>],
    plan: &Plan,
    declared: &[Declared],
    files: usize,
) -> Vec<Candidate> {
    let mut candidates = Vec::new();
    for invariant in broken(plan, &["gt-decrement"]) {
        let Content::Row { table, atoms, .. } = &declared[invariant].content else {
            continue;
        };
        let [Atom::Lower(column)] = atoms.as_slice() else {
            continue;
        };
        let shares = Shares::new(footprint, bodies, (*table, *column));
        if let Some(shares) = shares.filter(|shares| shares.is_bound_alone(declared)) {
            candidates.extend(shares.candidate(title(plan, invariant), files));
        }
    }
    candidates
}

/// Bounds that two changes may break together: why no repair is offered for them, if none is.
pub(super) fn considered(plan: &Plan) -> Vec<Considered> {
    let bounds = broken(plan, &["gt-decrement", "lt-increment"]).into_iter();
    bounds
        .map(|invariant| title(plan, invariant))
        .map(|title| Considered {
            kind: kind("repair-escrow"),
            title,
            reason: "the result may differ. It is certain to be the same where the number has no upper bound, rows are \
                     neither inserted nor deleted, each change adds an amount to one row found by its key, and other \
                     reads only list the number"
                .to_owned(),
        })
        .collect()
}

fn broken(plan: &Plan, rules: &[&str]) -> Vec<usize> {
    let is_broken = |invariant: &usize| {
        let verdicts = plan.entries.iter().filter_map(|e| e.verdict(*invariant));
        let mut needing = verdicts.filter(|v| v.confluent == Confluence::No);
        needing.any(|v| rules.contains(&v.rule))
    };
    (0..plan.invariants.len()).filter(is_broken).collect()
}

fn title(plan: &Plan, invariant: usize) -> String {
    let name = &plan.invariants[invariant].name;
    format!("split what {name} leaves among sites")
}

/// A number of each row of a table, to be split.
struct Shares<'s, 'a> {
    footprint: &'s Footprint<'a>,
    bodies: &'s [Body<'a>],
    table: TableId,
    column: ColumnIndex,
    /// The names of the table, of the number, and of the columns of the key.
    of: &'s str,
    number: &'s str,
    key: Vec<&'s str>,
    /// The name of the table of shares.
    name: String,
}

impl<'s, 'a> Shares<'s, 'a> {
    /// `None` if the number's shares could not be distinguished from something else.
    fn new(
        footprint: &'s Footprint<'a>,
        bodies: &'s [Body<'a>],
        (table, column): (TableId, ColumnIndex),
    ) -> Option<Shares<'s, 'a>> {
        let schema = footprint.table(table);
        let column_name = |of: &ColumnIndex| schema.columns[of.index()].name.as_str();
        let described = &schema.columns[column.index()];
        let (of, number) = (schema.name.as_str(), column_name(&column));
        let key: Vec<&str> = schema.primary_key.iter().map(column_name).collect();
        let name = format!("{of}_{number}_share");
        let of_key = schema.indexes.iter().map(|index| &index.columns);
        let found_by = of_key
            .chain([&schema.primary_key])
            .any(|columns| columns.contains(&column));
        let mut references = footprint.catalog.table(table).foreign_keys.iter();
        let refers = references.any(|reference| reference.columns.contains(&column));
        let is_number =
            described.data_type.is_integer() || matches!(described.data_type, DataType::Numeric(_));
        let is_plain = |name: &&str| {
            let mut chars = name.chars();
            chars.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        };
        let tables = &footprint.catalog.schema.tables;
        let taken = tables.iter().any(|table| table.name == name)
            || footprint.catalog.views.iter().any(|view| view.name == name)
            || schema.columns.iter().any(|column| column.name == SITE)
            || bodies
                .iter()
                .any(|body| body.knows(SITE) || body.knows(PARAMETER));
        let plain = [of, number].iter().chain(&key).all(is_plain);
        let fits = is_number && !described.nullable && !key.is_empty() && plain;
        (fits && !found_by && !refers && !taken).then_some(Shares {
            footprint,
            bodies,
            table,
            column,
            of,
            number,
            key,
            name,
        })
    }

    /// Whether no other condition concerns the number, and none concerns its table together with others.
    fn is_bound_alone(&self, declared: &[Declared]) -> bool {
        let catalog = self.footprint.catalog;
        let mentions = |span: Span| {
            let file = catalog.files.get(usize::from(span.file));
            let words = file.map_or(Vec::new(), |file| lexemes(file, span));
            words.iter().any(|word| word.name() == Some(self.of))
        };
        let views = catalog.views.iter().map(|view| view.span);
        let assertions = catalog.assertions.iter().map(|of| of.span);
        let mut checks = declared.iter().filter_map(|of| match &of.content {
            Content::Row { table, atoms, .. } if *table == self.table => Some(atoms),
            _ => None,
        });
        let is_apart = |atom: &Atom| match atom {
            Atom::Lower(_) => true,
            Atom::Upper(column) | Atom::Value(column) => *column != self.column,
            Atom::Several(columns) => !columns.contains(&self.column),
        };
        checks.all(|atoms| atoms.iter().all(is_apart)) && !views.chain(assertions).any(mentions)
    }

    fn candidate(&self, title: String, files: usize) -> Option<Candidate> {
        let mut edits = vec![self.declared(files)?];
        let (mut at, mut takers, mut is_told) = (Vec::new(), BTreeSet::new(), false);
        for action in self.footprint.on_table(self.table) {
            let access = &action.access;
            let reads = access.columns_read.contains(&self.column);
            let writes = access
                .writes
                .iter()
                .any(|write| write.column == self.column);
            let key = &self.footprint.table(self.table).primary_key;
            let moves = access
                .writes
                .iter()
                .any(|write| key.contains(&write.column));
            if matches!(access.role, Role::Insert | Role::Delete) || action.cascaded || moves {
                return None;
            }
            if !reads && !writes {
                continue;
            }
            let body = self.bodies.iter().find(|body| body.owner == action.owner)?;
            let mut nodes = 0..body.nodes.len();
            let node = nodes.find(|node| {
                body.summary(*node)
                    .is_some_and(|of| of.id == action.statement)
            })?;
            match access.role {
                Role::Update if writes => {
                    edits.extend(self.taken(body, node, action)?);
                    edits.push(one_more(body, PARAMETER, "integer")?);
                    at.push(body.nodes[node].span);
                    takers.insert(body.procedure.name.as_str());
                }
                Role::Read => {
                    edits.extend(self.summed(body, node)?);
                    is_told = true;
                }
                _ => return None,
            }
        }
        let takers: Vec<&str> = takers.into_iter().collect();
        let (of, number, name) = (self.of, self.number, &self.name);
        let mut accepts = vec![
            format!(
                "a site takes from its own share only, and is refused where the share is not enough, even if other \
                 sites have some left. The application moves amounts from {of}.{number} to shares, and between shares"
            ),
            format!(
                "callers of {} name the site ({PARAMETER}). Each site has a row of {name} for each row of {of}, with 0 \
                 where it has no share: an UPDATE that finds no row takes nothing",
                takers.join(", ")
            ),
        ];
        if is_told {
            accepts.push(format!(
                "queries return the sum of all shares for {of}.{number}, which is more than one site may take"
            ));
        }
        accepts.push(format!(
            "queries outside these files have to add the shares to {of}.{number}, and scripts that load rows have to \
             fill the shares"
        ));
        Some(Candidate {
            kind: kind("repair-escrow"),
            title,
            at,
            edits,
            accepts,
            accepts_at_commit: None,
            guarantee: None,
        })
    }

    /// Declares the table of shares, behind the table.
    fn declared(&self, files: usize) -> Option<Edit> {
        let place = self.footprint.catalog.table(self.table).span;
        if usize::from(place.file) >= files {
            return None;
        }
        let schema = self.footprint.table(self.table);
        let mut text = format!(";\n\nCREATE TABLE {} (\n", self.name);
        for column in &schema.primary_key {
            let of = &schema.columns[column.index()];
            text += &format!("    {} {} NOT NULL,\n", of.name, describe(&of.data_type));
        }
        let number = &schema.columns[self.column.index()];
        let key = self.key.join(", ");
        text += &format!(
            "    {SITE} integer NOT NULL,\n    {0} {1} NOT NULL CHECK ({0} >= 0),\n    PRIMARY KEY ({key}, {SITE}),\n    \
             FOREIGN KEY ({key}) REFERENCES {2} ({key})\n)",
            self.number,
            describe(&number.data_type),
            self.of
        );
        Some(Edit::insert_after(place, text))
    }

    /// The position of the table's name in a statement, if it is named once and without an alias.
    fn named_once(&self, words: &[Lexeme], action: &Action) -> Option<usize> {
        let place = at(words, action.access.span)?;
        let names = words.iter().filter(|word| word.name() == Some(self.of));
        let qualified = place > 0 && words[place - 1].is_sign(".");
        (names.count() == 1 && qualifier(words, place) == place && !qualified).then_some(place)
    }

    /// An UPDATE that adds an amount to the number of one row, and does nothing else: applied to the site's share.
    fn taken(&self, body: &Body<'_>, node: usize, action: &Action) -> Option<Vec<Edit>> {
        let of = &body.nodes[node];
        let Statement::Sql { into, .. } = of.statement else {
            return None;
        };
        let words = &of.words;
        let is_amount = match action.access.writes.as_slice() {
            [write] => matches!(write.class, WriteClass::Add { .. }),
            _ => false,
        };
        let is_alone = body.only_access(node, Role::Update).is_some()
            && body.summary(node)?.result == ResultUse::Unused
            && into.is_empty()
            && !body.asks_for_outcome()
            && find(words, 0..words.len(), "returning").is_none();
        let by_key = body.same_row(action, action) && is_by_key_alone(self.footprint, action);
        if !is_amount || !is_alone || !by_key {
            return None;
        }
        let place = self.named_once(words, action)?;
        let mut edits = with_condition(words, place, &format!("{SITE} = {PARAMETER}"))?;
        edits.push(Edit::replace(words[place].span, self.name.clone()));
        Some(edits)
    }

    /// A SELECT that lists the number: it lists the sum.
    fn summed(&self, body: &Body<'_>, node: usize) -> Option<Vec<Edit>> {
        let of = &body.nodes[node];
        let read = body.only_access(node, Role::Read)?;
        let words = &of.words;
        let place = at(words, read.access.span)?;
        let row = body.file.slice(words[qualifier(words, place)].span);
        let mut edits = Vec::new();
        for part in body.selected(node)? {
            let Some((column, _)) = body.column_at(node, part.clone()) else {
                continue;
            };
            if column != self.column {
                continue;
            }
            let same_row: Vec<String> = self
                .key
                .iter()
                .map(|key| format!("{}.{key} = {row}.{key}", self.name))
                .collect();
            let (number, name) = (self.number, &self.name);
            let data_type = &self.footprint.table(self.table).columns[column.index()].data_type;
            let text = format!(
                "CAST({row}.{number} + coalesce((SELECT sum({name}.{number}) FROM {name} WHERE {}), 0) AS {}) AS {number}",
                same_row.join(" AND "),
                describe(data_type)
            );
            edits.push(Edit::replace(span(&words[part])?, text));
        }
        // The number is named nowhere else.
        let names = words.iter().filter(|word| word.name() == Some(self.number));
        (!edits.is_empty() && names.count() == edits.len()).then_some(edits)
    }
}
