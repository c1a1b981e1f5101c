//! Minimises a case: no row and no call of it can be left out, and its values are easy to read.

use anabranch_types::Value;

use super::World;
use super::call::Side;
use super::case::Case;

/// How many times another value is tried in the place of one: small numbers only help readers.
const SMALLER_MAX: u32 = 200;

/// The most rows of a case for which leaving out each two at once is tried.
const PAIRED_ROWS_MAX: usize = 16;

/// Leaves out every part that is not needed, and uses smaller numbers where possible, as long as `still` holds of
/// the case.
pub(super) fn minimal(
    world: &World<'_>,
    case: &Case,
    planned: bool,
    still: impl Fn(&Case) -> bool + Copy,
) -> Case {
    let mut least = case.clone();
    if let Some(settled) = case.with_ancestor_rows(world, planned)
        && still(&settled)
    {
        least = settled;
    }
    let mut tries = SMALLER_MAX;
    loop {
        let before = least.clone();
        least = without(
            least,
            |c| c.calls.len(),
            |c, i| drop(c.calls.remove(i)),
            still,
        );
        least = without(
            least,
            |c| c.rows.len(),
            |c, i| drop(c.rows.remove(i)),
            still,
        );
        least = without_pairs(least, still);
        least = smaller(least, &mut tries, still);
        if least == before {
            break;
        }
    }
    let least = renamed(least, still);
    left_first(least, still)
}

/// Exchanges the replicas if the second one would run the first call.
fn left_first(case: Case, still: impl Fn(&Case) -> bool) -> Case {
    let mut apart = case.calls.iter().filter(|call| call.side != Side::Before);
    if apart.next().is_none_or(|call| call.side == Side::Left) {
        return case;
    }
    let mut exchanged = case.clone();
    for call in &mut exchanged.calls {
        call.side = match call.side {
            Side::Before => Side::Before,
            Side::Left => Side::Right,
            Side::Right => Side::Left,
        };
    }
    if still(&exchanged) { exchanged } else { case }
}

/// Replaces texts by short names, all equal ones at once, so that they stay equal.
fn renamed(mut case: Case, still: impl Fn(&Case) -> bool) -> Case {
    let mut texts: Vec<String> = Vec::new();
    for value in values(&mut case) {
        if let Value::Text(text) = value
            && !texts.iter().any(|t| **t == **text)
        {
            texts.push(text.to_string());
        }
    }
    for place in 0..texts.len() {
        if texts[place].len() <= 1 {
            continue;
        }
        let mut names = (b'a'..=b'z').map(|c| char::from(c).to_string());
        let Some(name) = names.find(|name| !texts.contains(name)) else {
            break;
        };
        let mut other = case.clone();
        for value in values(&mut other) {
            if matches!(&*value, Value::Text(t) if **t == *texts[place]) {
                *value = Value::Text(name.as_str().into());
            }
        }
        if still(&other) {
            texts[place] = name;
            case = other;
        }
    }
    case
}

/// All values of a case.
fn values(case: &mut Case) -> impl Iterator<Item = &mut Value> {
    let rows = case.rows.iter_mut().flat_map(|(_, values)| values);
    let arguments = case.calls.iter_mut().flat_map(|call| &mut call.arguments);
    rows.chain(arguments)
}

/// Leaves out one part after the other, as long as the case still breaks.
fn without(
    mut case: Case,
    count: impl Fn(&Case) -> usize,
    remove: impl Fn(&mut Case, usize),
    still: impl Fn(&Case) -> bool,
) -> Case {
    let mut place = count(&case);
    while place > 0 {
        place -= 1;
        let mut less = case.clone();
        remove(&mut less, place);
        if still(&less) {
            case = less;
            place = place.min(count(&case));
        }
    }
    case
}

/// Leaves out two rows at once, if each is there only for the other.
fn without_pairs(mut case: Case, still: impl Fn(&Case) -> bool) -> Case {
    let mut second = case.rows.len();
    if second > PAIRED_ROWS_MAX {
        return case;
    }
    while second > 1 {
        second = (second - 1).min(case.rows.len() - 1);
        for first in 0..second {
            let mut less = case.clone();
            less.rows.remove(second);
            less.rows.remove(first);
            if still(&less) {
                case = less;
                break;
            }
        }
        if case.rows.is_empty() {
            return case;
        }
    }
    case
}

/// Tries 0 and 1 in the place of each value, in this order, as long as tries are left.
fn smaller(mut case: Case, tries: &mut u32, still: impl Fn(&Case) -> bool) -> Case {
    let calls = places(case.calls.iter().map(|c| c.arguments.len()));
    for (call, argument) in calls {
        let value = case.calls[call].arguments[argument].clone();
        for simpler in simpler(&value) {
            let mut less = case.clone();
            less.calls[call].arguments[argument] = simpler;
            if may_try(tries) && still(&less) {
                case = less;
                break;
            }
        }
    }
    let rows: Vec<(usize, usize)> = places(case.rows.iter().map(|(_, values)| values.len()));
    for (row, column) in rows {
        let value = case.rows[row].1[column].clone();
        for simpler in simpler(&value) {
            let mut less = case.clone();
            less.rows[row].1[column] = simpler;
            if may_try(tries) && still(&less) {
                case = less;
                break;
            }
        }
    }
    case
}

fn may_try(tries: &mut u32) -> bool {
    let may = *tries > 0;
    *tries = tries.saturating_sub(1);
    may
}

fn places(counts: impl Iterator<Item = usize>) -> Vec<(usize, usize)> {
    let pairs = counts.enumerate();
    pairs
        .flat_map(|(i, count)| (0..count).map(move |j| (i, j)))
        .collect()
}

/// Values to try in the place of one, simplest first; never one that is as simple.
fn simpler(value: &Value) -> Vec<Value> {
    match value {
        Value::Int(n) => [0, 1]
            .into_iter()
            .take_while(|m| m != n)
            .map(Value::Int)
            .collect(),
        Value::Numeric(n) => {
            let of = anabranch_types::Decimal::from_i64;
            let scaled = |m: i64| of(m).to_scaled(n.scale());
            [0, 1]
                .into_iter()
                .take_while(|m| of(*m) != *n)
                .filter_map(|m| {
                    let scaled = scaled(m)?;
                    let same_scale = anabranch_types::Decimal::from_scaled(scaled, n.scale());
                    Some(Value::Numeric(same_scale))
                })
                .collect()
        }
        Value::Array(values) if values.len() > 1 => {
            vec![Value::Array(values[..1].to_vec().into())]
        }
        _ => Vec::new(),
    }
}
