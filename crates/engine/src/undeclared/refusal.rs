//! Why a statement cannot run beside the declared types.

use anabranch_analysis::Plan;
use anabranch_analysis::explore::Counterexample;
use anabranch_analysis::report::counterexample::render_case;

/// A refused statement: what PostgreSQL's error fields of the same names carry.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Refusal {
    /// SQLSTATE.
    pub code: &'static str,
    /// What is refused, in a sentence.
    pub message: String,
    /// Why, with a counterexample as SQL where one was found.
    pub detail: Option<String>,
    /// What to do.
    pub hint: String,
    /// Whether a new plan could have room for it, at the declared types' expense ([`super::acceptance`]).
    pub can_be_accepted: bool,
    /// The declared type whose entry would change.
    pub transaction: Option<String>,
    /// The invariant that requires it.
    pub invariant: Option<String>,
    /// A case in which the invariant breaks if nothing is ordered. `this_statement` is the statement.
    pub counterexample: Option<Counterexample>,
}

const DECLARE: &str = "Declare the transaction with the application as a procedure, so that the \
                       plan includes it, and call the procedure. Or run it alone, while all others wait: \
                       SET anabranch.alone = on.";

/// [`DECLARE`], where a new plan has room.
const DECLARE_OR_ACCEPT: &str = "Declare the transaction with the application as a procedure, so that the \
                                 plan includes it, and call the procedure. Or accept the new plan, which holds for all: \
                                 SET anabranch.accept_plan = on, and run it again. Or run it alone, while all others \
                                 wait: SET anabranch.alone = on.";

impl Refusal {
    fn new(code: &'static str, message: String, hint: &str) -> Refusal {
        Refusal {
            code,
            message,
            detail: None,
            hint: hint.to_owned(),
            can_be_accepted: false,
            transaction: None,
            invariant: None,
            counterexample: None,
        }
    }

    /// A declared type would need another entry.
    pub(super) fn changed(
        transaction: &str,
        invariant: Option<&str>,
        explanation: Option<&str>,
        found: Option<(&Plan, &Counterexample)>,
    ) -> Refusal {
        let kept = invariant.map_or(String::new(), |name| format!(" to keep \"{name}\""));
        let message = format!(
            "this statement would change the plan: \"{transaction}\" would have to coordinate more{kept}"
        );
        let mut detail = explanation.map_or(String::new(), |why| format!("{transaction}: {why}."));
        if let Some((plan, example)) = found {
            detail.push_str("\nWithout coordination:\n");
            render_case(plan, example, &mut detail);
        }
        let detail = detail.trim().to_owned();
        Refusal {
            detail: (!detail.is_empty()).then_some(detail),
            transaction: Some(transaction.to_owned()),
            invariant: invariant.map(str::to_owned),
            counterexample: found.map(|(_, example)| example.clone()),
            can_be_accepted: true,
            ..Refusal::new("55000", message, DECLARE_OR_ACCEPT)
        }
    }

    pub(super) fn replicated(table: &str) -> Refusal {
        let message = format!(
            "table \"{table}\" cannot be written: no declared transaction type writes it, so every \
             partition has a copy, and a write would reach one of them"
        );
        Refusal::new("0A000", message, DECLARE)
    }

    pub(super) fn moved(table: &str) -> Refusal {
        let message = format!(
            "this statement would change the plan: rows of table \"{table}\" would have to move to \
             other partitions"
        );
        Refusal::new("55000", message, DECLARE)
    }

    pub(super) fn not_permanent(table: &str) -> Refusal {
        let message = format!(
            "this statement would change the plan: no declared transaction type removes rows of \
             table \"{table}\" or changes their keys, and others rely on that"
        );
        Refusal {
            can_be_accepted: true,
            ..Refusal::new("55000", message, DECLARE_OR_ACCEPT)
        }
    }

    /// What it does is not known well enough for a plan.
    pub(super) fn not_analysed(reason: &str) -> Refusal {
        let message =
            format!("the plan has no room for this transaction, which was not analysed: {reason}");
        Refusal::new("55000", message, DECLARE)
    }

    pub(super) fn too_many(types_max: usize) -> Refusal {
        let message =
            format!("{types_max} shapes of undeclared statements that write are known, the most");
        let hint = "Use parameters in place of constants, or declare the transactions.";
        Refusal::new("54000", message, hint)
    }
}
