//! Runs as text tables.

use std::collections::BTreeMap;

use anabranch_bench::outcome::Run;
use anabranch_bench::table::{Table, grouped};

/// The code paths: key, name in the table, and the share that the prototype of the paper spent on it
/// (coordination-avoidance.txt §6.2).
const CODE_PATHS: [(&str, &str, &str); 5] = [
    (
        "storage",
        "Storage (lookup, row programs, install)",
        "45.3%",
    ),
    ("procedure", "Procedure execution", "14.4%"),
    (
        "transport",
        "Queues between threads (the paper: RPC, serialization)",
        "25.8%",
    ),
    (
        "guard",
        "Guards (the paper: ID assignment synchronization)",
        "0.19%",
    ),
    (
        "protocol",
        "The protocol's bookkeeping (the paper: other)",
        "14.3%",
    ),
];

/// The shares of code paths in this run, beside those of the paper.
pub(super) fn code_path(protocol: &str, shares: &BTreeMap<String, f64>) -> String {
    let mut table = Table::new([&format!("{protocol}: code path"), "share", "published"]);
    for (name, text, published) in CODE_PATHS {
        let share = shares.get(name).copied().unwrap_or(0.0);
        table.row([text, &format!("{:.2}%", share * 100.0), published]);
    }
    table.to_string()
}

/// One table of all runs, with the ratio to the last run if there are several, and the conditions that do not hold.
pub(crate) fn summary(runs: &[Run]) -> String {
    let several = runs.len() > 1;
    let counts_orders = runs.iter().any(|run| run.new_orders_per_s.is_some());
    let mut heads = vec![
        "protocol",
        if counts_orders {
            "New-Order/s"
        } else {
            "operations/s"
        },
        "all tx/s",
        "mean ms",
        "p50 ms",
        "p99 ms",
        "aborts/tx",
        "messages/tx",
        "blocked ms/tx",
        "conditions",
    ];
    if several {
        heads.push("ratio");
    }
    let mut table = Table::new(heads);
    let last = runs.last().map_or(1.0, Run::rate);
    for run in runs {
        let aborted: u64 = run.aborts.values().sum();
        let number =
            |value: Option<f64>| value.map_or("–".to_owned(), |value| format!("{value:.2}"));
        let held = run.conditions.values().filter(|held| **held).count();
        let mut row = vec![
            run.protocol.clone(),
            grouped(run.rate()),
            grouped(run.transactions_per_s),
            format!("{:.2}", run.latency_ms.mean),
            format!("{:.2}", run.latency_ms.p50),
            format!("{:.2}", run.latency_ms.p99),
            format!("{:.3}", aborted as f64 / run.transactions.max(1) as f64),
            number(run.messages_per_transaction),
            number(run.blocked_ms_per_transaction),
            format!("{held}/{}", run.conditions.len()),
        ];
        if several {
            row.push(format!("{:.2}x", run.rate() / last));
        }
        table.row(row);
    }
    let mut text = table.to_string();
    for run in runs {
        if let ("ramp-small" | "ramp-hybrid", Some(rounds), Some(in_vain)) = (
            &*run.protocol,
            run.second_rounds_per_transaction,
            run.false_positives_per_transaction,
        ) {
            text.push_str(&format!(
                "  {}: {rounds:.4} second rounds a transaction, {in_vain:.4} false positives\n",
                run.protocol
            ));
        }
        for (name, _) in run.conditions.iter().filter(|(_, held)| !**held) {
            text.push_str(&format!(
                "  {}: condition {name} does not hold\n",
                run.protocol
            ));
        }
    }
    text
}
