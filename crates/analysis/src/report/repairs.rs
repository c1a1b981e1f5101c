//! Repairs as text, as JSON and as a section of the page: the change of the SQL, and the change of the plan.

use std::fmt::Write;

use anabranch_types::markup::escaped;
use serde::Serialize;

use super::layout::{hanging, heading, paragraph};
use super::names::class_name;
use super::notes::{count, mark, routed_by};
use crate::repair::{Classes, Considered, Repair, Repairs, Step, TypeChange, TypePlan};

/// The text names at most this many changes that are not offered.
const CONSIDERED_MAX: usize = 10;

/// The repairs that were found, of which a report lists the best.
#[derive(Clone, Copy)]
pub struct BestRepairs<'r> {
    /// All repairs.
    pub repairs: &'r Repairs,
    /// A report lists at most this many.
    pub shown_max: usize,
}

impl<'r> BestRepairs<'r> {
    fn offered(self) -> &'r [Repair] {
        let offered = &self.repairs.offered;
        &offered[..offered.len().min(self.shown_max)]
    }

    /// The number of repairs, in a sentence.
    fn summary(self) -> String {
        let (all, shown) = (self.repairs.offered.len(), self.offered().len());
        let found = match all {
            0 => "Found no change of the SQL that needs less coordination.".to_owned(),
            _ if all == shown => format!(
                "{} of the SQL that {} less coordination, best first. Each was tried by itself.",
                count(all, "change", "changes"),
                if all == 1 { "needs" } else { "need" }
            ),
            _ => format!(
                "The best {shown} of {} of the SQL that need less coordination. Each was tried by itself.",
                count(all, "change", "changes")
            ),
        };
        match self.repairs.untried {
            0 => found,
            untried => format!("{found} {untried} more were not tried, to bound the time."),
        }
    }
}

/// The section of the text report.
pub fn render(shown: BestRepairs<'_>) -> String {
    let mut out = String::from("\n");
    heading(&mut out, "Repairs");
    paragraph(&mut out, 0, &shown.summary());
    for (number, repair) in (1..).zip(shown.offered()) {
        out.push('\n');
        hanging(
            &mut out,
            &format!("{number}. "),
            &format!("{} [{}]", repair.title, repair.kind.code),
        );
        for step in &repair.steps {
            hanging(&mut out, "   change   ", &step_line(step));
        }
        if !repair.places.is_empty() {
            hanging(&mut out, "   at       ", &places(repair));
        }
        for accepted in &repair.accepts {
            hanging(&mut out, "   accept   ", accepted);
        }
        let classes = classes(repair);
        hanging(&mut out, "   plan     ", &classes);
        for line in plan_diff(repair) {
            let (sign, text) = line;
            hanging(&mut out, &format!("     {sign} "), &text);
        }
        for line in repair.diff.lines() {
            // Lines of a diff are not wrapped.
            let _ = writeln!(out, "{}", format!("     {line}").trim_end());
        }
    }
    let considered = not_offered(shown.repairs);
    if !considered.is_empty() {
        out.push('\n');
        paragraph(&mut out, 0, "Considered, but not offered:");
        for line in considered {
            hanging(&mut out, "  ", &line);
        }
    }
    out
}

/// The changes that are not offered, a line each.
fn not_offered(repairs: &Repairs) -> Vec<String> {
    let line = |of: &Considered| format!("{} [{}]; {}", of.title, of.kind.code, of.reason);
    let named = repairs.considered.iter().take(CONSIDERED_MAX);
    let mut lines: Vec<String> = named.map(line).collect();
    if let Some(more @ 1..) = repairs.considered.len().checked_sub(CONSIDERED_MAX) {
        lines.push(format!("and {more} more (--format json lists all)"));
    }
    lines
}

/// One step of a combination, in a line.
fn step_line(step: &Step) -> String {
    format!("{} [{}]", step.title, step.kind.code)
}

/// The statements or constraints that a repair changes, as `file:line`.
fn places(repair: &Repair) -> String {
    let places = repair.places.iter();
    let places: Vec<String> = places
        .map(|(file, line)| format!("{file}:{line}"))
        .collect();
    places.join(", ")
}

/// The number of types of each class before and after, in a line.
fn classes(repair: &Repair) -> String {
    let counts =
        |of: Classes| format!("{} free, {} local, {} global", of.free, of.local, of.global);
    let (before, after) = (counts(repair.change.before), counts(repair.change.after));
    match before == after {
        true => before,
        false => format!("{before} → {after}"),
    }
}

/// The change of the plan: removed lines with `-`, added ones with `+`.
fn plan_diff(repair: &Repair) -> Vec<(char, String)> {
    let mut lines = Vec::new();
    for TypeChange {
        name,
        before,
        after,
    } in &repair.change.types
    {
        let of = |plan: &TypePlan| {
            let routed = routed_by(&plan.routing, plan.routing_array.as_deref());
            let class = class_name(plan.class);
            format!("{} {name}  {class}, {routed}", mark(plan.class))
        };
        match of(before) == of(after) {
            true => lines.push((' ', of(before))),
            false => lines.extend([('-', of(before)), ('+', of(after))]),
        }
        for (sign, these, others) in [('-', before, after), ('+', after, before)] {
            let guards = these.guards.iter().filter(|g| !others.guards.contains(g));
            lines.extend(guards.map(|guard| (sign, format!("coordinates on {guard}"))));
            let checks = these.checks.iter().filter(|c| !others.checks.contains(c));
            lines.extend(checks.map(|check| (sign, format!("checked {check}, before it commits"))));
        }
    }
    lines
}

/// The search for repairs, in JSON.
#[derive(Serialize)]
pub(super) struct SearchReport<'a> {
    offered: usize,
    considered: Vec<ConsideredReport<'a>>,
    untried: usize,
}

/// A repair, in JSON.
#[derive(Serialize)]
pub(super) struct RepairReport<'a> {
    kind: &'a str,
    title: &'a str,
    steps: Vec<StepReport<'a>>,
    places: Vec<Place<'a>>,
    diff: &'a str,
    guarantee: &'static str,
    accepts: &'a [String],
    plan: Change<'a>,
}

#[derive(Serialize)]
struct StepReport<'a> {
    kind: &'a str,
    title: &'a str,
}

#[derive(Serialize)]
struct Place<'a> {
    file: &'a str,
    line: u32,
}

#[derive(Serialize)]
struct Change<'a> {
    before: ClassesReport,
    after: ClassesReport,
    transactions: Vec<TypeReport<'a>>,
}

#[derive(Serialize)]
struct ClassesReport {
    free: usize,
    local: usize,
    global: usize,
}

#[derive(Serialize)]
struct TypeReport<'a> {
    name: &'a str,
    before: TypePlanReport<'a>,
    after: TypePlanReport<'a>,
}

#[derive(Serialize)]
struct TypePlanReport<'a> {
    class: &'static str,
    routing: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    routing_array: Option<&'a str>,
    guards: &'a [String],
    checks: &'a [String],
}

#[derive(Serialize)]
struct ConsideredReport<'a> {
    kind: &'a str,
    title: &'a str,
    reason: &'a str,
}

/// The search for repairs, for JSON.
pub(super) fn search(shown: BestRepairs<'_>) -> SearchReport<'_> {
    let considered = shown.repairs.considered.iter();
    SearchReport {
        offered: shown.repairs.offered.len(),
        considered: considered
            .map(|of| ConsideredReport {
                kind: of.kind.code,
                title: &of.title,
                reason: &of.reason,
            })
            .collect(),
        untried: shown.repairs.untried,
    }
}

/// The listed repairs, for JSON.
pub(super) fn report(shown: BestRepairs<'_>) -> Vec<RepairReport<'_>> {
    shown.offered().iter().map(repair).collect()
}

fn repair(of: &Repair) -> RepairReport<'_> {
    let classes = |of: Classes| ClassesReport {
        free: of.free,
        local: of.local,
        global: of.global,
    };
    fn planned(of: &TypePlan) -> TypePlanReport<'_> {
        TypePlanReport {
            class: class_name(of.class),
            routing: &of.routing,
            routing_array: of.routing_array.as_deref(),
            guards: &of.guards,
            checks: &of.checks,
        }
    }
    let types = of.change.types.iter();
    let places = of.places.iter();
    let steps = of.steps.iter();
    RepairReport {
        kind: of.kind.code,
        title: &of.title,
        steps: steps
            .map(|step| StepReport {
                kind: step.kind.code,
                title: &step.title,
            })
            .collect(),
        places: places
            .map(|(file, line)| Place { file, line: *line })
            .collect(),
        diff: &of.diff,
        guarantee: match of.options.guarantee {
            crate::Guarantee::Invariants => "invariants",
            crate::Guarantee::Serializable => "serializable",
        },
        accepts: &of.accepts,
        plan: Change {
            before: classes(of.change.before),
            after: classes(of.change.after),
            transactions: types
                .map(|change| TypeReport {
                    name: &change.name,
                    before: planned(&change.before),
                    after: planned(&change.after),
                })
                .collect(),
        },
    }
}

/// Writes the section of the page, with a card for each repair.
pub(super) fn put_html(shown: BestRepairs<'_>, out: &mut String) {
    let _ = writeln!(
        out,
        "<section>\n<h2>Repairs</h2>\n<p>{}</p>",
        escaped(&shown.summary())
    );
    for (number, repair) in (1..).zip(shown.offered()) {
        let _ = writeln!(
            out,
            "<article class=\"repair\">\n<h3>{number}. {} <span class=\"soft\">{}</span></h3>\n\
             <dl class=\"notes\">",
            escaped(&repair.title),
            repair.kind.code
        );
        for step in &repair.steps {
            let _ = writeln!(out, "<dt>change</dt><dd>{}</dd>", escaped(&step_line(step)));
        }
        if !repair.places.is_empty() {
            let _ = writeln!(out, "<dt>at</dt><dd>{}</dd>", escaped(&places(repair)));
        }
        for accepted in &repair.accepts {
            let _ = writeln!(out, "<dt>accept</dt><dd>{}</dd>", escaped(accepted));
        }
        let _ = writeln!(
            out,
            "<dt>plan</dt><dd>{}</dd>\n</dl>",
            escaped(&classes(repair))
        );
        let plan = plan_diff(repair).into_iter();
        put_diff(plan.map(|(sign, text)| format!("{sign} {text}")), out);
        if !repair.diff.is_empty() {
            put_diff(repair.diff.lines().map(str::to_owned), out);
        }
        out.push_str("</article>\n");
    }
    let considered = not_offered(shown.repairs);
    if !considered.is_empty() {
        out.push_str("<p class=\"soft\">Considered, but not offered:</p>\n<ul class=\"soft\">\n");
        for line in considered {
            let _ = writeln!(out, "<li>{}</li>", escaped(&line));
        }
        out.push_str("</ul>\n");
    }
    out.push_str("</section>\n");
}

/// Writes a diff, with removed and added lines in colours.
fn put_diff(lines: impl Iterator<Item = String>, out: &mut String) {
    out.push_str("<pre>");
    for line in lines {
        let is_name = line.starts_with("---") || line.starts_with("+++");
        let class = match line.chars().next() {
            Some('-') if !is_name => "gone",
            Some('+') if !is_name => "come",
            _ => "kept",
        };
        let _ = writeln!(out, "<span class=\"{class}\">{}</span>", escaped(&line));
    }
    out.push_str("</pre>\n");
}
