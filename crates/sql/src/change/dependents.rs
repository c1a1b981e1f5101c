//! What a statement drops, and what depends on that.

use super::error::{Change, ChangeError, Notice};

/// What a statement drops, and what depends on it, in messages' words.
#[derive(Debug, Default)]
pub(super) struct Drops {
    /// What it names: `table t`.
    pub(super) targets: Vec<Dropped>,
    /// Whether it has CASCADE.
    pub(super) cascade: bool,
    /// Whether it is a DROP TYPE with CASCADE, which drops no dependent objects.
    pub(super) cascades_from_type: bool,
    /// What depends on it: the dependent object, and what it depends on.
    pub(super) dependents: Vec<(Dropped, String)>,
}

/// A dropped object.
#[derive(Clone, Debug)]
pub(super) struct Dropped {
    /// In messages' words: `view v`, `column a of table t`.
    pub(super) described: String,
    /// The names by which others name it.
    pub(super) names: Vec<String>,
}

impl Dropped {
    pub(super) fn new(described: String, name: &str) -> Dropped {
        let names = vec![name.to_owned()];
        Dropped { described, names }
    }
}

impl Drops {
    /// Takes the dependents out, if they may go; refuses the statement otherwise.
    pub(super) fn finish(&mut self, notices: &mut Vec<Notice>) -> Change<()> {
        if self.dependents.is_empty() {
            return Ok(());
        }
        let lines = |line: &dyn Fn(&(Dropped, String)) -> String| {
            let lines: Vec<String> = self.dependents.iter().map(line).collect();
            lines.join("\n")
        };
        if !self.cascade {
            let message = match &self.targets[..] {
                [target] => format!(
                    "cannot drop {} because other objects depend on it",
                    target.described
                ),
                _ => "cannot drop desired object(s) because other objects depend on them".into(),
            };
            let (code, message, hint) = match self.cascades_from_type {
                false => (
                    "2BP01",
                    message,
                    "Use DROP ... CASCADE to drop the dependent objects too.",
                ),
                true => (
                    "0A000",
                    "DROP TYPE … CASCADE is not supported where other objects depend on the type"
                        .into(),
                    "Drop these objects first.",
                ),
            };
            let detail = lines(&|(of, on)| format!("{} depends on {on}", of.described));
            return Err(ChangeError::new(code, message).detail(detail).hint(hint));
        }
        let notice = match &self.dependents[..] {
            [(of, _)] => Notice::new("00000", format!("drop cascades to {}", of.described)),
            several => Notice {
                code: "00000",
                message: format!("drop cascades to {} other objects", several.len()),
                detail: Some(lines(&|(of, _)| {
                    format!("drop cascades to {}", of.described)
                })),
            },
        };
        notices.push(notice);
        Ok(())
    }
}
