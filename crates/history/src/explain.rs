//! Explains anomalies in words.

use std::fmt::Write as _;

use crate::graph::{Dependency, Step};
use crate::history::{History, ReadFact};
use crate::numbers::{ItemNumber, Position, TransactionNumber};
use crate::phenomenon::Phenomenon;
use crate::record::WriteKind;
use crate::verdict::{Anomaly, AnomalyStep, Participant};

/// Explains a cycle.
pub(crate) fn cycle(history: &History, phenomenon: Phenomenon, cycle: &[Step]) -> Anomaly {
    let mut cycle = cycle.to_vec();
    // Begins with the transaction that is first in the file.
    let first = (0..cycle.len()).min_by_key(|at| cycle[*at].from);
    cycle.rotate_left(first.unwrap_or(0));
    let mut numbers: Vec<TransactionNumber> = Vec::new();
    for step in &cycle {
        for number in [step.from, step.to] {
            if !numbers.contains(&number) {
                numbers.push(number);
            }
        }
    }
    let items: Vec<ItemNumber> = cycle
        .iter()
        .filter(|step| is_about_item(step.kind))
        .map(|step| step.item)
        .collect();
    let place = |number| numbers.iter().position(|other| *other == number);
    let steps = cycle
        .iter()
        .map(|step| AnomalyStep {
            from: place(step.from).expect("it was added"),
            to: place(step.to).expect("it was added"),
            dependency: step.kind,
            item: is_about_item(step.kind).then(|| history.item(step.item).to_string()),
            reason: reason(history, step),
        })
        .collect();
    Anomaly {
        phenomenon,
        transactions: participants(history, &numbers, &items),
        steps,
    }
}

/// Explains a phenomenon of a single read or write.
pub(crate) fn direct(
    history: &History,
    phenomenon: Phenomenon,
    transaction: TransactionNumber,
    item: ItemNumber,
    other: Option<TransactionNumber>,
) -> Anomaly {
    let name = |number: TransactionNumber| &*history.facts(number).name;
    let subject = name(transaction);
    let what = history.item(item);
    let reason = match (phenomenon, other) {
        (Phenomenon::G1a, Some(other)) => {
            format!("{subject} read {what} from {}, which aborted", name(other))
        }
        (Phenomenon::G1b, Some(other)) => format!(
            "{subject} read a version of {what} that {} itself replaced",
            name(other)
        ),
        (Phenomenon::IncompatibleOrder, Some(other)) => format!(
            "{subject} read {what} in a state that is neither before nor after the one that {} read",
            name(other)
        ),
        (Phenomenon::DuplicateElements, Some(other)) => {
            format!(
                "{subject} read an element of {what} twice that {} appended once",
                name(other)
            )
        }
        (Phenomenon::Internal, _) => {
            format!("{subject} read {what} in a state that contradicts its own operations")
        }
        (Phenomenon::LostWrite, _) => {
            format!("{subject} committed, but its write of {what} was never installed")
        }
        (_, Some(other)) => format!(
            "{subject} read {what} at a sequence where {}'s version was installed last, \
             and got another version",
            name(other)
        ),
        (_, None) => format!(
            "{subject} read {what} at a sequence where no version was installed, \
             and got a version"
        ),
    };
    let mut numbers = vec![transaction];
    numbers.extend(other.filter(|other| *other != transaction));
    let mut transactions = participants(history, &numbers, &[item]);
    // Aborted and uninstalled writes left no version to describe.
    let this = match phenomenon {
        Phenomenon::LostWrite => "w",
        _ => "r",
    };
    for (participant, did) in transactions.iter_mut().zip([this, "w"]) {
        if participant.operations.is_empty() {
            participant.operations.push(format!("{did} {what}"));
        }
    }
    let step = AnomalyStep {
        from: numbers.len() - 1,
        to: 0,
        dependency: match phenomenon {
            Phenomenon::LostWrite => Dependency::WriteWrite,
            _ => Dependency::WriteRead,
        },
        item: Some(what.to_string()),
        reason,
    };
    Anomaly {
        phenomenon,
        transactions,
        steps: vec![step],
    }
}

fn is_about_item(kind: Dependency) -> bool {
    !matches!(
        kind,
        Dependency::Session | Dependency::RealTime | Dependency::Silent
    )
}

fn reason(history: &History, step: &Step) -> String {
    let from = history.facts(step.from);
    let to = history.facts(step.to);
    let (a, b) = (&from.name, &to.name);
    let item = || history.item(step.item);
    match step.kind {
        Dependency::WriteWrite => format!("{b} wrote {} after {a}", item()),
        Dependency::WriteRead => read_from(history, step),
        Dependency::ReadWrite => overwrote(history, step),
        Dependency::Session => {
            let session = to
                .session
                .map_or("", |number| history.sessions.name(number));
            format!("{b} followed {a} in session {session}")
        }
        Dependency::RealTime => format!(
            "{b} was invoked (at {}) after {a} completed (at {})",
            to.invoked.unwrap_or_default(),
            from.completed.unwrap_or_default()
        ),
        Dependency::Silent => format!("{b} followed {a}"),
    }
}

fn read_from(history: &History, step: &Step) -> String {
    let (a, b) = (&history.facts(step.from).name, &history.facts(step.to).name);
    let item = history.item(step.item);
    let wrote = history.position(step.from, step.item).unwrap_or_default();
    let read = history
        .reads_of(step.to)
        .iter()
        .filter(|read| read.item == step.item && read.shown >= wrote)
        .min_by_key(|read| read.shown);
    match read {
        Some(read) if read.absent => {
            format!("{b}'s range lacks {item}, as {a} left it")
        }
        Some(read) if read.shown != wrote => format!(
            "{b} read {item} in {}, which includes {a}'s write",
            version(history, step.item, read.position)
        ),
        _ => format!("{b} read {item} as {a} wrote it"),
    }
}

fn overwrote(history: &History, step: &Step) -> String {
    let (a, b) = (&history.facts(step.from).name, &history.facts(step.to).name);
    let item = history.item(step.item);
    let wrote = history.position(step.to, step.item).unwrap_or_default();
    let read = history
        .reads_of(step.from)
        .iter()
        .filter(|read| read.item == step.item && read.position < wrote)
        .min_by_key(|read| read.position);
    let Some(read) = read else {
        return format!("{b} wrote {item} after the version that {a} read");
    };
    if read.absent {
        return format!("{a}'s range lacks {item}, which {b} inserted");
    }
    let got = version(history, step.item, read.position);
    if read.position + 1 == wrote {
        format!("{a} read {item} in {got}, which {b} overwrote")
    } else {
        format!("{a} read {item} in {got}, and {b} wrote a later version")
    }
}

fn version(history: &History, item: ItemNumber, position: Position) -> String {
    match history.writer(item, position) {
        None => "its initial version".to_string(),
        Some(writer) => format!("{}'s version", history.facts(writer).name),
    }
}

fn participants(
    history: &History,
    numbers: &[TransactionNumber],
    items: &[ItemNumber],
) -> Vec<Participant> {
    numbers
        .iter()
        .map(|number| {
            let facts = history.facts(*number);
            Participant {
                name: facts.name.to_string(),
                call: facts.call.as_ref().map(ToString::to_string),
                line: facts.line,
                operations: operations(history, *number, items),
            }
        })
        .collect()
}

/// A transaction's operations on these items.
fn operations(history: &History, number: TransactionNumber, items: &[ItemNumber]) -> Vec<String> {
    let source = &history.facts(number).source_operations;
    if !source.is_empty() {
        let about = source.iter().filter(|(item, _)| items.contains(item));
        return about.map(|(_, operation)| operation.to_string()).collect();
    }
    let mut lines = Vec::new();
    for read in history.reads_of(number) {
        if items.contains(&read.item) {
            lines.push(describe_read(history, read));
        }
    }
    for write in history.writes_of(number) {
        if items.contains(&write.item) {
            let kind = match history.versions_of(write.item)[write.position as usize - 1].kind {
                WriteKind::Assign => "w",
                WriteKind::Increment => "inc",
                WriteKind::Apply => "apply",
                WriteKind::Append => "append",
                WriteKind::Insert => "insert",
                WriteKind::Delete => "delete",
            };
            lines.push(format!("{kind} {}", history.item(write.item)));
        }
    }
    lines.dedup();
    lines
}

fn describe_read(history: &History, read: &ReadFact) -> String {
    let mut line = format!("r {}", history.item(read.item));
    let of = match history.writer(read.item, read.position) {
        None => "⊥",
        Some(writer) => &history.facts(writer).name,
    };
    let how = if read.absent { "not found, of" } else { "of" };
    let _ = write!(line, " {how} {of}");
    line
}

impl Anomaly {
    /// The anomaly as a paragraph.
    pub fn to_text(&self) -> String {
        let mut text = format!("{}: {}\n", self.phenomenon, self.phenomenon.meaning());
        for participant in &self.transactions {
            let _ = write!(text, "  {}", participant.name);
            if let Some(call) = &participant.call {
                let _ = write!(text, " {call}");
            }
            if participant.line > 0 {
                let _ = write!(text, " (line {})", participant.line);
            }
            if !participant.operations.is_empty() {
                let _ = write!(text, ": {}", participant.operations.join("; "));
            }
            text.push('\n');
        }
        for step in &self.steps {
            let (from, to) = (
                &self.transactions[step.from].name,
                &self.transactions[step.to].name,
            );
            let kind = step.dependency.name();
            if from == to {
                let _ = writeln!(text, "  {}", step.reason);
            } else {
                let _ = writeln!(text, "  {from} —{kind}→ {to}: {}", step.reason);
            }
        }
        text
    }
}

impl Dependency {
    /// The short name used in explanations.
    pub fn name(self) -> &'static str {
        match self {
            Dependency::WriteWrite => "ww",
            Dependency::WriteRead => "wr",
            Dependency::ReadWrite => "rw",
            Dependency::Session => "session",
            Dependency::RealTime => "real time",
            Dependency::Silent => "",
        }
    }
}
