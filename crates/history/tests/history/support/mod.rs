//! Short histories, and the phenomena that a model finds in them.

use anabranch_history::{History, Model, Phenomenon, check};

/// The history of these transactions, one for each line, with these version orders: `1 2` for T1's before T2's.
///
/// # Panics
/// If it is not valid.
pub(crate) fn history(transactions: &[String], orders: &[(&str, &str)]) -> History {
    let mut text = format!("{{\"anabranch_history\":1}}\n{}", transactions.concat());
    for (item, versions) in orders {
        let versions: Vec<String> = versions.split(' ').map(|of| format!("\"T{of}\"")).collect();
        text += &format!(
            "{{\"order\":\"{item}\",\"versions\":[{}]}}\n",
            versions.join(",")
        );
    }
    text += &format!(
        "{{\"end\":{{\"transactions\":{},\"orders\":{}}}}}\n",
        transactions.len(),
        orders.len()
    );
    History::read(text.as_bytes()).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// The names of the phenomena that a model finds.
pub(crate) fn found(history: &History, model: Model) -> Vec<Phenomenon> {
    let verdict = check(history, model).expect("the history suits the model");
    for anomaly in &verdict.anomalies {
        println!("{model}: {}", anomaly.to_text());
    }
    verdict.counts.into_keys().collect()
}
