//! Weights from a file: how often each transaction type is called beside the others.

use std::collections::BTreeMap;

use anabranch_sql::summary::TransactionSummary;

use crate::WEIGHT_MAX;

/// Reads a JSON object of transaction type names and whole numbers: `{"new_order": 45, "payment": 43}`. Types that
/// it does not name weigh 1.
///
/// # Errors
/// A message, if the text is not such an object, names an unknown type, or has a weight outside of 0 to
/// [`WEIGHT_MAX`].
pub fn weights(
    text: &str,
    summaries: &[TransactionSummary],
) -> Result<BTreeMap<String, u64>, String> {
    let read: BTreeMap<String, serde_json::Value> = serde_json::from_str(text)
        .map_err(|error| format!("not a JSON object of transaction types and weights: {error}"))?;
    let mut weights = BTreeMap::new();
    for (name, value) in read {
        if !summaries.iter().any(|summary| summary.name == name) {
            let mut known: Vec<&str> = summaries.iter().map(|s| s.name.as_str()).take(20).collect();
            if summaries.len() > known.len() {
                known.push("…");
            }
            return Err(format!(
                "no transaction type is called {name}; the transaction types are: {}",
                known.join(", ")
            ));
        }
        let weight = value.as_u64().filter(|weight| *weight <= WEIGHT_MAX);
        let Some(weight) = weight else {
            return Err(format!(
                "the weight of {name} is {value}, but has to be a whole number from 0 to {WEIGHT_MAX}"
            ));
        };
        weights.insert(name, weight);
    }
    Ok(weights)
}
