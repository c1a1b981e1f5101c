//! Decides exactly whether bounds on sums are compatible.
//!
//! After Dutertre and de Moura, *A Fast Linear-Arithmetic Solver for DPLL(T)* (CAV 2006): each compared sum has a
//! variable of its own and a row that defines it; bounds on variables are asserted. Variables without rows keep
//! their bounds at all times, and [`Simplex::check`] exchanges them with others until all variables do, or a row
//! shows that they cannot. Strict bounds have an infinitesimal part. Whole numbers are found by branching: a
//! variable with a fraction is at most its floor or at least its ceiling.
//!
//! A conflict is the set of reasons for which no numbers satisfy the bounds.

use std::collections::BTreeMap;

use super::rational::{Overflow, Rational};

/// Why a bound is there: a literal, or (from [`SPLITS`] on) a split.
pub(super) type Reason = u32;

/// Reasons from here on are splits.
const SPLITS: Reason = 1 << 31;

/// A number with an infinitesimal part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DeltaRational {
    pub(super) number: Rational,
    /// The factor of the infinitesimal.
    pub(super) delta: Rational,
}

impl DeltaRational {
    /// The number itself.
    pub(super) fn at(number: Rational) -> DeltaRational {
        DeltaRational {
            number,
            delta: Rational::ZERO,
        }
    }

    /// The number plus (1) or minus (-1) an infinitesimal.
    pub(super) fn beside(number: Rational, side: i128) -> DeltaRational {
        DeltaRational {
            number,
            delta: Rational::whole(side),
        }
    }

    fn plus(self, other: DeltaRational) -> Result<DeltaRational, Overflow> {
        Ok(DeltaRational {
            number: self.number.plus(other.number)?,
            delta: self.delta.plus(other.delta)?,
        })
    }

    fn minus(self, other: DeltaRational) -> Result<DeltaRational, Overflow> {
        self.plus(other.times(Rational::whole(-1))?)
    }

    fn times(self, factor: Rational) -> Result<DeltaRational, Overflow> {
        Ok(DeltaRational {
            number: self.number.times(factor)?,
            delta: self.delta.times(factor)?,
        })
    }
}

/// Which end of a variable's range a bound is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Lower,
    Upper,
}

type Bound = Option<(DeltaRational, Reason)>;

/// The result of a search for numbers.
#[derive(Debug)]
pub(super) enum Found {
    /// There are some: [`Simplex::numbers`].
    Numbers,
    /// For these reasons there are none.
    Conflict(Vec<Reason>),
    /// The limit was reached.
    GaveUp,
}

/// Variables, the rows that define some of them, and bounds.
#[derive(Debug, Default)]
pub(super) struct Simplex {
    values: Vec<DeltaRational>,
    lower: Vec<Bound>,
    upper: Vec<Bound>,
    whole: Vec<bool>,
    /// The rows, by the variable that they define: its factors over variables without a row.
    rows: BTreeMap<usize, BTreeMap<usize, Rational>>,
    trail: Vec<(usize, End, Bound)>,
}

impl Simplex {
    /// A new variable.
    pub(super) fn variable(&mut self, whole: bool) -> usize {
        self.values.push(DeltaRational::at(Rational::ZERO));
        self.lower.push(None);
        self.upper.push(None);
        self.whole.push(whole);
        self.values.len() - 1
    }

    /// A new variable that equals this sum of variables without rows. Must be called before any bound is set.
    pub(super) fn sum(&mut self, terms: &[(usize, Rational)], whole: bool) -> usize {
        let variable = self.variable(whole);
        self.rows.insert(variable, terms.iter().copied().collect());
        variable
    }

    /// The number of bounds set so far, for [`Simplex::restore`].
    pub(super) fn mark(&self) -> usize {
        self.trail.len()
    }

    /// Removes the bounds that were set since the mark.
    pub(super) fn restore(&mut self, mark: usize) {
        while self.trail.len() > mark {
            if let Some((variable, end, bound)) = self.trail.pop() {
                match end {
                    End::Lower => self.lower[variable] = bound,
                    End::Upper => self.upper[variable] = bound,
                }
            }
        }
    }

    /// Sets a bound; returns the reasons if another bound contradicts it.
    pub(super) fn bound(
        &mut self,
        variable: usize,
        end: End,
        bound: DeltaRational,
        reason: Reason,
    ) -> Result<Option<Vec<Reason>>, Overflow> {
        let (mine, other) = match end {
            End::Lower => (self.lower[variable], self.upper[variable]),
            End::Upper => (self.upper[variable], self.lower[variable]),
        };
        let beyond = |than: DeltaRational| match end {
            End::Lower => bound > than,
            End::Upper => bound < than,
        };
        if mine.is_some_and(|(than, _)| !beyond(than)) {
            return Ok(None);
        }
        if let Some((than, other)) = other
            && beyond(than)
        {
            return Ok(Some(vec![reason, other]));
        }
        self.trail.push((variable, end, mine));
        match end {
            End::Lower => self.lower[variable] = Some((bound, reason)),
            End::Upper => self.upper[variable] = Some((bound, reason)),
        }
        if beyond(self.values[variable]) && !self.rows.contains_key(&variable) {
            self.update(variable, bound)?;
        }
        Ok(None)
    }

    /// Sets the value of a variable without a row, and updates those that depend on it.
    fn update(&mut self, variable: usize, value: DeltaRational) -> Result<(), Overflow> {
        let moved = value.minus(self.values[variable])?;
        for (of, row) in &self.rows {
            if let Some(factor) = row.get(&variable) {
                self.values[*of] = self.values[*of].plus(moved.times(*factor)?)?;
            }
        }
        self.values[variable] = value;
        Ok(())
    }

    /// Searches numbers within all bounds, fractions allowed; returns the reasons if there are none.
    pub(super) fn check(&mut self) -> Result<Option<Vec<Reason>>, Overflow> {
        loop {
            // The first variable out of its bounds, and the first that can compensate: so no state repeats (Bland's
            // rule).
            let out = self.rows.keys().find_map(|variable| {
                let value = self.values[*variable];
                match (self.lower[*variable], self.upper[*variable]) {
                    (Some((bound, why)), _) if value < bound => {
                        Some((*variable, End::Lower, bound, why))
                    }
                    (_, Some((bound, why))) if value > bound => {
                        Some((*variable, End::Upper, bound, why))
                    }
                    _ => None,
                }
            });
            let Some((variable, end, bound, why)) = out else {
                return Ok(None);
            };
            let row = &self.rows[&variable];
            let rises = |factor: &Rational| factor.is_positive() == (end == End::Lower);
            let free = row.iter().find(|(other, factor)| {
                let value = self.values[**other];
                if rises(factor) {
                    self.upper[**other].is_none_or(|(bound, _)| value < bound)
                } else {
                    self.lower[**other].is_none_or(|(bound, _)| value > bound)
                }
            });
            let Some((other, factor)) = free.map(|(other, factor)| (*other, *factor)) else {
                let stuck = row.iter().filter_map(|(other, factor)| {
                    let bound = if rises(factor) {
                        self.upper[*other]
                    } else {
                        self.lower[*other]
                    };
                    bound.map(|(_, reason)| reason)
                });
                let mut reasons: Vec<Reason> = stuck.chain([why]).collect();
                reasons.sort_unstable();
                reasons.dedup();
                return Ok(Some(reasons));
            };
            let moved = bound.minus(self.values[variable])?;
            let step = moved.times(Rational::ONE.over(factor)?)?;
            let value = self.values[other].plus(step)?;
            self.update(other, value)?;
            self.pivot(variable, other)?;
        }
    }

    /// Exchanges `leaving`, which has a row, and `entering`, which is in it.
    fn pivot(&mut self, leaving: usize, entering: usize) -> Result<(), Overflow> {
        let Some(mut row) = self.rows.remove(&leaving) else {
            return Ok(());
        };
        let Some(factor) = row.remove(&entering) else {
            self.rows.insert(leaving, row);
            return Ok(());
        };
        // leaving = factor * entering + rest, so entering = leaving / factor - rest / factor.
        let mut solved = BTreeMap::from([(leaving, Rational::ONE.over(factor)?)]);
        for (other, of) in row {
            solved.insert(other, of.over(factor)?.negated());
        }
        for other_row in self.rows.values_mut() {
            let Some(times) = other_row.remove(&entering) else {
                continue;
            };
            for (other, of) in &solved {
                let added = of.times(times)?;
                let sum = other_row.entry(*other).or_insert(Rational::ZERO);
                *sum = sum.plus(added)?;
                if sum.is_zero() {
                    other_row.remove(other);
                }
            }
        }
        self.rows.insert(entering, solved);
        Ok(())
    }

    /// Searches numbers within all bounds, whole ones where required, by at most `splits` splits.
    pub(super) fn check_whole(&mut self, splits: &mut u32) -> Result<Found, Overflow> {
        if let Some(reasons) = self.check()? {
            return Ok(Found::Conflict(reasons));
        }
        let broken = (0..self.values.len()).find(|variable| {
            let value = self.values[*variable];
            self.whole[*variable] && !(value.number.is_whole() && value.delta.is_zero())
        });
        let Some(variable) = broken else {
            return Ok(Found::Numbers);
        };
        if *splits == 0 {
            return Ok(Found::GaveUp);
        }
        *splits -= 1;
        let split = SPLITS + *splits;
        let value = self.values[variable];
        let mut below = value.number.floor();
        if value.number.is_whole() && value.delta.is_negative() {
            below = below.minus(Rational::ONE)?;
        }
        let above = below.plus(Rational::ONE)?;
        let mut reasons: Vec<Reason> = Vec::new();
        let mut gave_up = false;
        for (end, bound) in [(End::Upper, below), (End::Lower, above)] {
            let mark = self.mark();
            let found = match self.bound(variable, end, DeltaRational::at(bound), split)? {
                Some(reasons) => Found::Conflict(reasons),
                None => self.check_whole(splits)?,
            };
            match found {
                // The bounds stay, so that the numbers do.
                Found::Numbers => return Ok(Found::Numbers),
                Found::Conflict(found) => {
                    self.restore(mark);
                    if !found.contains(&split) {
                        return Ok(Found::Conflict(found));
                    }
                    reasons.extend(found.into_iter().filter(|reason| *reason != split));
                }
                Found::GaveUp => {
                    self.restore(mark);
                    gave_up = true;
                }
            }
        }
        if gave_up {
            return Ok(Found::GaveUp);
        }
        reasons.sort_unstable();
        reasons.dedup();
        Ok(Found::Conflict(reasons))
    }

    /// The numbers that were found, with a small number for the infinitesimal.
    pub(super) fn numbers(&self) -> Result<Vec<Rational>, Overflow> {
        let mut delta = Rational::ONE;
        for (variable, value) in self.values.iter().enumerate() {
            let lower = self.lower[variable].map(|(bound, _)| (bound, *value));
            let upper = self.upper[variable].map(|(bound, _)| (*value, bound));
            for (less, more) in lower.into_iter().chain(upper) {
                if less.number < more.number && less.delta > more.delta {
                    let room = more.number.minus(less.number)?;
                    let most = room.over(less.delta.minus(more.delta)?)?;
                    delta = delta.min(most);
                }
            }
        }
        let number = |value: &DeltaRational| value.number.plus(value.delta.times(delta)?);
        self.values.iter().map(number).collect()
    }
}
