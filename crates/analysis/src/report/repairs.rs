//! Repairs as text, as JSON and as a part of the page: the change of the SQL, and what that changes in the plan.

use std::fmt::Write;

use anabranch_types::markup::escaped;
use serde::Serialize;

use super::json::class_name;
use super::notes::{count, mark, routed_by};
use super::text::{hanging, heading, paragraph};
use crate::repair::{Classes, Considered, Repair, Repairs, Step, TypeChange, TypePlan};

/// So many changes that are not offered are named to people.
const CONSIDERED_MAX: usize = 10;

/// Repairs, of which the first `shown_max` are shown.
#[derive(Clone, Copy)]
pub struct Shown<'r> {
    /// All of them.
    pub repairs: &'r Repairs,
    /// So many are shown at most.
    pub shown_max: usize,
}

impl<'r> Shown<'r> {
    fn offered(self) -> &'r [Repair] {
        let offered = &self.repairs.offered;
        &offered[..offered.len().min(self.shown_max)]
    }

    /// How many there are, in a sentence.
    fn summary(self) -> String {
        let (all, shown) = (self.repairs.offered.len(), self.offered().len());
        let found = match all {
            0 => "No change was found under which less has to be ordered.".to_owned(),
            _ if all == shown => format!(
                "{} under which less has to be ordered, best first, each tried by itself.",
                count(all, "change", "changes")
            ),
            _ => format!(
                "The best {shown} of {} under which less has to be ordered, each tried by itself.",
                count(all, "change", "changes")
            ),
        };
        match self.repairs.untried {
            0 => found,
            untried => format!("{found} {untried} more were not tried: that would take too long."),
        }
    }
}

/// For people.
pub fn render(shown: Shown<'_>) -> String {
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
            hanging(&mut out, "   change   ", &told_step(step));
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
            // It is there to be read as `diff` writes it: lines are not broken.
            let _ = writeln!(out, "{}", format!("     {line}").trim_end());
        }
    }
    let considered = told(shown.repairs);
    if !considered.is_empty() {
        out.push('\n');
        paragraph(&mut out, 0, "Of no use here:");
        for line in considered {
            hanging(&mut out, "  ", &line);
        }
    }
    out
}

/// What is not offered, a line each.
fn told(repairs: &Repairs) -> Vec<String> {
    let line = |of: &Considered| format!("{} [{}]; {}", of.title, of.kind.code, of.reason);
    let named = repairs.considered.iter().take(CONSIDERED_MAX);
    let mut lines: Vec<String> = named.map(line).collect();
    if let Some(more @ 1..) = repairs.considered.len().checked_sub(CONSIDERED_MAX) {
        lines.push(format!("and {more} more (--format json has all)"));
    }
    lines
}

/// One of the changes that are made together.
fn told_step(step: &Step) -> String {
    format!("{} [{}]", step.title, step.kind.code)
}

/// What it is about: `file:line`.
fn places(repair: &Repair) -> String {
    let places = repair.places.iter();
    let places: Vec<String> = places
        .map(|(file, line)| format!("{file}:{line}"))
        .collect();
    places.join(", ")
}

fn classes(repair: &Repair) -> String {
    let told = |of: Classes| format!("{} free, {} local, {} global", of.free, of.local, of.global);
    let (before, after) = (told(repair.change.before), told(repair.change.after));
    match before == after {
        true => before,
        false => format!("{before} → {after}"),
    }
}

/// The plan's change, line by line: what goes has `-`, what comes `+`.
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
            lines.extend(guards.map(|guard| (sign, format!("ordered on {guard}"))));
            let checks = these.checks.iter().filter(|c| !others.checks.contains(c));
            lines.extend(checks.map(|check| (sign, format!("checked {check}, before it commits"))));
        }
    }
    lines
}

/// What was looked for, for programs.
#[derive(Serialize)]
pub(super) struct SearchReport<'a> {
    offered: usize,
    considered: Vec<ConsideredReport<'a>>,
    untried: usize,
}

/// A repair, for programs.
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

/// What was looked for, for JSON.
pub(super) fn search(shown: Shown<'_>) -> SearchReport<'_> {
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

/// The repairs that are shown, for JSON.
pub(super) fn report(shown: Shown<'_>) -> Vec<RepairReport<'_>> {
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

/// A section of the page: each repair is a card.
pub(super) fn put_html(shown: Shown<'_>, out: &mut String) {
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
            let _ = writeln!(out, "<dt>change</dt><dd>{}</dd>", escaped(&told_step(step)));
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
    let considered = told(shown.repairs);
    if !considered.is_empty() {
        out.push_str("<p class=\"soft\">Of no use here:</p>\n<ul class=\"soft\">\n");
        for line in considered {
            let _ = writeln!(out, "<li>{}</li>", escaped(&line));
        }
        out.push_str("</ul>\n");
    }
    out.push_str("</section>\n");
}

/// Lines of which those that go and come are told by their colour, too.
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
