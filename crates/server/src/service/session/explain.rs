//! EXPLAIN, EXPLAIN ANALYZE and EXPLAIN COORDINATION.

use std::fmt::Write;

use anabranch_engine::Outcome;
use anabranch_sql::client::{ClientWork, ExplainFormat, ExplainOptions};
use anabranch_types::Value;
use anabranch_wire::ErrorFields;

use super::Session;
use crate::service::options::Guarantee;
use crate::service::prepared::RunPlan;

/// One row a line.
fn lines(text: &str) -> Vec<Vec<Value>> {
    text.lines().map(|line| vec![Value::text(line)]).collect()
}

/// One row, with a document.
fn document(value: &serde_json::Value) -> Vec<Vec<Value>> {
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    vec![vec![Value::text(text)]]
}

impl Session {
    /// The answer to EXPLAIN and EXPLAIN COORDINATION, without running the statement.
    pub(super) fn explain(
        &self,
        options: &ExplainOptions,
        planned: &RunPlan,
    ) -> Result<Vec<Vec<Value>>, Box<ErrorFields>> {
        if options.coordination {
            return Ok(self.explain_coordination(options, planned));
        }
        let text = planned.plan.explain(&self.environment.planned.application);
        Ok(match options.format {
            ExplainFormat::Text => lines(&text),
            ExplainFormat::Json => {
                let plan: Vec<&str> = text.lines().collect();
                document(&serde_json::json!([{ "Plan": plan }]))
            }
        })
    }

    /// The answer to EXPLAIN COORDINATION. The entry of a statement that needs one has been worked out.
    fn explain_coordination(&self, options: &ExplainOptions, planned: &RunPlan) -> Vec<Vec<Value>> {
        let environment = &self.environment;
        let coordination = match &planned.plan.work {
            ClientWork::Call { procedure, .. } => {
                let application = &environment.planned.application;
                let name = application.procedures[*procedure].name();
                environment.planned.coordination(name)
            }
            _ => planned
                .entry
                .get()
                .and_then(|entry| entry.coordination().cloned()),
        };
        let serializable = environment.guarantee == Guarantee::Serializable;
        let protocol = match environment.guarantee {
            Guarantee::Serializable => {
                "two-phase locking: every row that is read or written is locked"
            }
            Guarantee::Invariants => "RAMP-Fast",
        };
        match (coordination, options.format) {
            (Some(found), ExplainFormat::Json) if !serializable => {
                let entry = serde_json::from_str(&found.json).unwrap_or(serde_json::Value::Null);
                document(&serde_json::json!([{ "Coordination": entry, "Protocol": protocol }]))
            }
            (Some(found), ExplainFormat::Text) if !serializable => {
                lines(&format!("{}Runs under: {protocol}", found.text))
            }
            (_, ExplainFormat::Json) => document(&serde_json::json!([{
                "Coordination": serde_json::Value::Null,
                "Protocol": protocol,
            }])),
            (_, ExplainFormat::Text) if serializable => lines(&format!(
                "serializable: coordinates on every row that it touches\nRuns under: {protocol}"
            )),
            (_, ExplainFormat::Text) => lines(&format!(
                "free: it writes nothing, and reads all of a transaction's effects or none\nRuns under: {protocol}"
            )),
        }
    }

    /// The answer to EXPLAIN ANALYZE, when the statement has run.
    pub(super) fn explain_analyzed(
        &self,
        options: &ExplainOptions,
        planned: &RunPlan,
        rows: u64,
        outcome: Option<&Outcome>,
    ) -> Vec<Vec<Value>> {
        let plan = planned.plan.explain(&self.environment.planned.application);
        let cost = outcome.map(|outcome| outcome.cost).unwrap_or_default();
        let retries = outcome.map(|outcome| outcome.retries).unwrap_or_default();
        let milliseconds = |ticks: anabranch_types::Ticks| ticks.0 as f64 / 1e6;
        if options.format == ExplainFormat::Json {
            let plan: Vec<&str> = plan.lines().collect();
            return document(&serde_json::json!([{
                "Plan": plan,
                "Rows": rows,
                "Attempts": cost.attempts,
                "Retries": {
                    "Conflict": retries.conflict,
                    "Fractured": retries.fractured,
                    "Below Floor": retries.below_floor,
                    "Row Missing": retries.row_missing,
                    "Restarted": retries.restarted,
                },
                "Read Rounds": cost.read_rounds,
                "Items Read": cost.items_read,
                "Rows Read": cost.rows_read,
                "Rows Written": cost.effects,
                "Partitions Written": cost.partitions_written,
                "Messages": cost.messages,
                "Backoff Time": milliseconds(cost.backoff),
                "Execution Time": milliseconds(cost.elapsed),
            }]));
        }
        let mut text = plan;
        if !text.ends_with('\n') {
            text.push('\n');
        }
        let mut line = |name: &str, value: std::fmt::Arguments<'_>| {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{name}: {value}");
        };
        line("Rows", format_args!("{rows}"));
        if outcome.is_none() {
            line("Transaction", format_args!("none: no table is touched"));
            return lines(&text);
        }
        line(
            "Reads",
            format_args!(
                "{} rounds, {} items, {} rows",
                cost.read_rounds, cost.items_read, cost.rows_read
            ),
        );
        line(
            "Writes",
            format_args!(
                "{} rows on {} partitions",
                cost.effects, cost.partitions_written
            ),
        );
        line("Messages", format_args!("{}", cost.messages));
        line(
            "Attempts",
            format_args!(
                "{} (retried: {} conflict, {} fractured, {} below floor, {} row missing, {} restarted)",
                cost.attempts,
                retries.conflict,
                retries.fractured,
                retries.below_floor,
                retries.row_missing,
                retries.restarted
            ),
        );
        if options.timing {
            line(
                "Waited between attempts",
                format_args!("{:.3} ms", milliseconds(cost.backoff)),
            );
            line(
                "Execution Time",
                format_args!("{:.3} ms", milliseconds(cost.elapsed)),
            );
        }
        lines(&text)
    }
}
