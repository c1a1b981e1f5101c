//! A value read from a row decides whether, or how, the row is changed: the UPDATE decides it instead, from the row
//! itself (coordination-avoidance.txt §5.2).
//!
//! `IF had >= 10 THEN UPDATE … SET c = c - 10 …; END IF` is equivalent, when the transaction runs alone, to an
//! UPDATE that assigns `CASE WHEN c >= 10 THEN c - 10 ELSE c END`: one SELECT reads that row by its whole key, and
//! nothing between the two writes to the table. The row's owner evaluates the whole UPDATE at commit, so that what
//! was checked still holds.
//!
//! If the check decides anything else, above all an error, the row must not change after it was read. Then locking
//! it when it is read (FOR UPDATE) gains nothing, since what is read and changed is guarded anyway. That is also
//! tried, and reported.

use std::collections::BTreeSet;

use anabranch_sql::catalog::Statement;
use anabranch_sql::parse::Lexeme;
use anabranch_sql::source::Span;
use anabranch_sql::summary::{ResultUse, Role};
use anabranch_types::{ColumnIndex, TableId};

use super::body::Body;
use super::edit::Edit;
use super::increment::{COMPUTED_ONCE, Rewriting, assignments, without_unneeded};
use super::tokens::find;
use super::{Candidate, kind};
use crate::footprint::{Action, Footprint};
use crate::plan::{Confluence, Plan};

/// One candidate for each table, with each IF that can become an UPDATE of it; one for each IF; and one that locks
/// what is read.
pub(super) fn candidates(
    footprint: &Footprint<'_>,
    bodies: &[Body<'_>],
    plan: &Plan,
) -> Vec<Candidate> {
    let mut all: Vec<ConditionalUpdate> = Vec::new();
    for body in bodies.iter().filter(|body| !body.asks_for_outcome()) {
        let nodes = 0..body.nodes.len();
        all.extend(nodes.filter_map(|node| conditional_update(footprint, body, node)));
    }
    let tables: BTreeSet<TableId> = all.iter().map(|of| of.table).collect();
    let together = tables.into_iter().map(|table| {
        let of_table = all.iter().filter(|of| of.table == table);
        candidate(footprint, &of_table.collect::<Vec<_>>())
    });
    let apart = all.iter().map(|of| candidate(footprint, &[of]));
    together.chain(apart).chain(locked(bodies, plan)).collect()
}

/// An IF that can become an UPDATE.
struct ConditionalUpdate {
    routine: String,
    table: TableId,
    at: Span,
    edits: Vec<Edit>,
}

/// A branch of an IF: its condition, and the UPDATE in it.
struct Branch<'b, 'a> {
    /// `None` for ELSE.
    condition: Option<&'b [Lexeme]>,
    node: usize,
    update: &'a Action,
}

/// The IF at `node`, if each of its branches is one UPDATE of the same row.
fn branches<'b, 'a>(
    footprint: &Footprint<'_>,
    body: &'b Body<'a>,
    node: usize,
) -> Option<Vec<Branch<'b, 'a>>> {
    let Statement::If {
        branches,
        otherwise,
    } = body.nodes[node].statement
    else {
        return None;
    };
    let words = &body.nodes[node].words;
    let mut done = body.nodes[node].span.start;
    let mut found: Vec<Branch<'b, 'a>> = Vec::new();
    let bodies = branches.iter().map(|(_, statements)| (true, statements));
    let rest = (!otherwise.is_empty()).then_some((false, otherwise));
    for (has_condition, statements) in bodies.chain(rest) {
        let [(_, at)] = statements.as_slice() else {
            return None;
        };
        let before = |word: &Lexeme| done <= word.span.start && word.span.end <= at.start;
        let first = words.iter().position(before)?;
        let count = words[first..]
            .iter()
            .take_while(|word| before(word))
            .count();
        let mut head = &words[first..first + count];
        if head.first()?.is_sign(";") {
            head = &head[1..];
        }
        let condition = match head {
            [_, condition @ .., then] if has_condition && then.is_word("then") => Some(condition),
            [word] if !has_condition && word.is_word("else") => None,
            _ => return None,
        };
        done = at.end;
        let update_at = (node + 1..body.nodes.len()).find(|n| body.nodes[*n].span == *at)?;
        let update = body.only_access(update_at, Role::Update)?;
        if !is_by_key_alone(footprint, update)
            || body.summary(update_at)?.result != ResultUse::Unused
        {
            return None;
        }
        let same = |other: &Branch<'_, '_>| body.same_row(other.update, update);
        if !found.iter().all(same) || !body.same_row(update, update) {
            return None;
        }
        found.push(Branch {
            condition,
            node: update_at,
            update,
        });
    }
    Some(found)
}

/// Whether the row's whole key, and nothing else, selects the row.
pub(super) fn is_by_key_alone(footprint: &Footprint<'_>, update: &Action) -> bool {
    let access = &update.access;
    let key = &footprint.table(access.table).primary_key;
    let of_key = access.conditions.iter().all(|c| key.contains(&c.column));
    of_key && !access.has_other_conditions
}

/// What the UPDATE assigns if a condition holds, or if no other does.
struct Arm {
    condition: Option<String>,
    values: Vec<(ColumnIndex, String)>,
}

/// The IF at `node` as one UPDATE, if its conditions concern the row that it changes.
fn conditional_update(
    footprint: &Footprint<'_>,
    body: &Body<'_>,
    node: usize,
) -> Option<ConditionalUpdate> {
    let branches = branches(footprint, body, node)?;
    let first = branches.first()?;
    let table = first.update.access.table;
    let words = &body.nodes[first.node].words;
    let set = find(words, 0..words.len(), "set")?;
    let opening = body.text(&words[..=set]);
    let closing = body.text(&words[find(words, set..words.len(), "where")?..]);
    let mut rewritten = Rewritten::default();
    let arms: Option<Vec<Arm>> = branches
        .iter()
        .map(|branch| rewritten.arm(body, node, branch, opening))
        .collect();
    let arms = arms?;
    let moves = |column: &ColumnIndex| !footprint.is_settled(table, *column);
    if !rewritten.columns_asked.iter().any(moves) {
        // The conditions read no column that another transaction may change: nothing to gain.
        return None;
    }
    let assigned = assigned(&body.column_names(table), &arms);
    let at = body.nodes[node].span;
    let mut gone = rewritten.gone;
    gone.push(at);
    let mut edits = vec![Edit::replace(at, format!("{opening} {assigned} {closing}"))];
    edits.extend(without_unneeded(body, &rewritten.reads, &gone));
    edits.extend(body.declares_nothing(&edits));
    Some(ConditionalUpdate {
        routine: body.procedure.name.clone(),
        table,
        at,
        edits,
    })
}

fn candidate(footprint: &Footprint<'_>, of: &[&ConditionalUpdate]) -> Candidate {
    let mut names: Vec<&str> = of.iter().map(|of| of.routine.as_str()).collect();
    names.dedup();
    let name = of.first().map(|of| &footprint.table(of.table).name);
    let name = name.map_or("", String::as_str);
    Candidate {
        kind: kind("repair-check-in-update"),
        title: format!(
            "let the UPDATE check the row of {name} itself, not what was read before, in {}",
            names.join(", ")
        ),
        at: of.iter().map(|of| of.at).collect(),
        edits: of.iter().flat_map(|of| of.edits.clone()).collect(),
        accepts: vec![
            "the UPDATE checks the row as it is at commit, which may be newer than what was read before"
                .to_owned(),
            format!("where the check fails, the row of {name} is written unchanged"),
        ],
        accepts_at_commit: None,
        guarantee: None,
    }
}

/// What several rewritten expressions need.
#[derive(Default)]
struct Rewritten {
    reads: BTreeSet<usize>,
    gone: Vec<Span>,
    /// Columns in conditions.
    columns_asked: BTreeSet<ColumnIndex>,
}

impl Rewritten {
    /// A branch of the IF at `node`, whose UPDATE has to begin as the others do.
    fn arm(
        &mut self,
        body: &Body<'_>,
        node: usize,
        branch: &Branch<'_, '_>,
        opening: &str,
    ) -> Option<Arm> {
        let words = &body.nodes[branch.node].words;
        let set = find(words, 0..words.len(), "set")?;
        if body.text(&words[..=set]) != opening {
            return None;
        }
        let condition = match branch.condition {
            Some(condition) => {
                let once = |word: &Lexeme| COMPUTED_ONCE.iter().any(|once| word.is_word(once));
                if condition.iter().any(once) {
                    return None;
                }
                // The condition stands outside of the UPDATE so far.
                let mut rewriting = Rewriting::new(body, branch.update, node);
                let text = rewriting.rewritten(condition, 1)?;
                self.columns_asked.append(&mut rewriting.columns);
                self.keep(rewriting);
                Some(text)
            }
            None => None,
        };
        let mut values = Vec::new();
        for (column, value) in assignments(body, branch.node, branch.update) {
            let value = words.get(value)?;
            if value.iter().any(|word| word.is_word("default")) {
                return None;
            }
            let mut rewriting = Rewriting::new(body, branch.update, node);
            values.push((column, rewriting.rewritten(value, 0)?));
            self.keep(rewriting);
        }
        let writes = branch.update.access.writes.iter();
        let written: BTreeSet<ColumnIndex> = writes.map(|write| write.column).collect();
        let assigned_columns = values.iter().map(|(column, _)| *column).collect();
        (written == assigned_columns).then_some(Arm { condition, values })
    }

    fn keep(&mut self, mut rewriting: Rewriting<'_, '_>) {
        self.reads.append(&mut rewriting.reads);
        self.gone.append(&mut rewriting.gone);
    }
}

/// `c = CASE WHEN … THEN … ELSE … END` for each column that some branch assigns; the column itself where a branch
/// does not assign it.
fn assigned(names: &[&str], arms: &[Arm]) -> String {
    let values = arms.iter().flat_map(|arm| &arm.values);
    let columns: BTreeSet<ColumnIndex> = values.map(|(column, _)| *column).collect();
    let of_column = |column: &ColumnIndex| {
        let name = names[column.index()];
        let mut cases = String::new();
        let mut rest = name;
        for arm in arms {
            let value = arm.values.iter().find(|(of, _)| of == column);
            let value = value.map_or(name, |(_, text)| text.as_str());
            match &arm.condition {
                Some(condition) => cases += &format!("WHEN {condition} THEN {value} "),
                None => rest = value,
            }
        }
        format!("{name} = CASE {cases}ELSE {rest} END")
    };
    let all: Vec<String> = columns.iter().map(of_column).collect();
    all.join(", ")
}

/// Locks, when it is read, everything that is read by its whole key and that the type has a guard on.
fn locked(bodies: &[Body<'_>], plan: &Plan) -> Option<Candidate> {
    let (mut at, mut names) = (Vec::new(), Vec::new());
    for body in bodies {
        let entry = &plan.entries[body.owner];
        let is_isolation = |rule: &str| matches!(rule, "read-check-write" | "lost-update");
        let mut verdicts = entry.verdicts.iter();
        if !verdicts.any(|v| v.confluent == Confluence::No && is_isolation(v.rule)) {
            continue;
        }
        let before = at.len();
        for node in 0..body.nodes.len() {
            let words = &body.nodes[node].words;
            let Some(read) = body.only_access(node, Role::Read) else {
                continue;
            };
            let is_select = words.first().is_some_and(|word| word.is_word("select"));
            let is_held = entry.guards.iter().any(|g| g.table == read.access.table);
            if is_select
                && is_held
                && body.same_row(read, read)
                && find(words, 0..words.len(), "for").is_none()
            {
                at.push(body.nodes[node].span);
            }
        }
        if at.len() > before {
            names.push(body.procedure.name.as_str());
        }
    }
    (!at.is_empty()).then(|| Candidate {
        kind: kind("repair-lock-read"),
        title: format!(
            "lock rows when they are read (FOR UPDATE) in {}",
            names.join(", ")
        ),
        edits: at
            .iter()
            .map(|span| Edit::insert_after(*span, " FOR UPDATE"))
            .collect(),
        at,
        accepts: Vec::new(),
        accepts_at_commit: None,
        guarantee: None,
    })
}
