//! The search for parameters: Algorithm 1, lines 11 to 20.
//!
//! A choice gives each type one parameter or none. Choices are compared by the cost of their conflicts (line 20),
//! then by how much has to be ordered among all servers, then by how many guards, then accesses, fall where the
//! operation runs, once each table is placed by its best column.
//!
//! A choice of one type that another choice dominates in every respect is never taken. The search goes through the
//! types one by one (branch and bound): it drops a prefix that cannot become better than the best known choice,
//! whatever the remaining types are given. Where there are more than `choices_max` choices, hill climbing finds a
//! good one first: from several starts, it changes the parameter of one type after the other as long as something
//! improves. If more than `choices_max` prefixes then have to be examined, the search returns the best choice so
//! far, and the result is not called exhaustive.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::{Conflict, Key};

/// How much falls on the right partition: guards before accesses.
pub(crate) type Score = (u64, u64);

/// The most passes over the types in one climb.
const ROUNDS_MAX: usize = 30;

/// The most climbs.
const STARTS_MAX: usize = 32;

/// How good a choice is: the least is the best.
pub(crate) type Worth = (u64, u64, Reverse<Score>);

/// The scores of a type with one choice: of each table and placing column with a score, in order.
pub(crate) type Scored = Vec<(usize, usize, Score)>;

/// The problem.
pub(crate) struct Problem {
    /// Per type, the scores of each of its choices; the last choice is no parameter.
    pub(crate) scores: Vec<Vec<Scored>>,
    /// Per table, the number of columns that may place it.
    pub(crate) columns: Vec<usize>,
    /// Per type, the choices that no other of its choices dominates, in order.
    undominated: Vec<Vec<usize>>,
    weights: Vec<u64>,
    pairs: Vec<Pair>,
    /// Per type, its pairs.
    of_type: Vec<Vec<usize>>,
}

/// The cost of a conflict by the choices of its two types.
struct Pair {
    one: usize,
    other: usize,
    cost: u64,
    width: usize,
    /// By choice of the first and of the second.
    outcomes: Vec<Outcome>,
}

#[derive(Clone, Copy, Default)]
struct Outcome {
    /// Whether it costs.
    crosses: bool,
    /// Whether what the first (the second) writes matters on another server.
    by_one: bool,
    by_other: bool,
}

/// The result.
pub(crate) struct Found {
    /// For each type the index of its choice.
    pub(crate) choice: Vec<usize>,
    pub(crate) worth: Worth,
    pub(crate) is_exhaustive: bool,
}

impl Problem {
    /// `parameters`: per type its choices but the last. `weights`: per type.
    pub(crate) fn new(
        parameters: &[Vec<usize>],
        weights: &[u64],
        conflicts: &[Conflict],
        scores: Vec<Vec<Scored>>,
        columns: Vec<usize>,
    ) -> Problem {
        let mut of_type = vec![Vec::new(); parameters.len()];
        let mut pairs = Vec::with_capacity(conflicts.len());
        for (place, conflict) in conflicts.iter().enumerate() {
            let (one, other) = conflict.types;
            of_type[one].push(place);
            if other != one {
                of_type[other].push(place);
            }
            let keys = |owner: usize| -> Vec<Vec<Key>> {
                let one_by_one = parameters[owner].iter().map(|p| super::keys(&[*p]));
                one_by_one.chain([super::keys(&[])]).collect()
            };
            let (of_one, of_other) = (keys(one), keys(other));
            let mut outcomes = Vec::with_capacity(of_one.len() * of_other.len());
            for by_one in &of_one {
                for by_other in &of_other {
                    let mut outcome = Outcome::default();
                    let clauses = conflict.clauses.iter();
                    for clause in clauses.filter(|c| !c.is_kept(by_one, by_other)) {
                        outcome.crosses = true;
                        outcome.by_one |= clause.is_written_by(true);
                        outcome.by_other |= clause.is_written_by(false);
                    }
                    outcomes.push(outcome);
                }
            }
            pairs.push(Pair {
                one,
                other,
                cost: weights[one].saturating_add(weights[other]),
                width: of_other.len(),
                outcomes,
            });
        }
        let mut problem = Problem {
            scores,
            columns,
            undominated: Vec::new(),
            weights: weights.to_vec(),
            pairs,
            of_type,
        };
        problem.undominated = (0..parameters.len())
            .map(|owner| problem.undominated(owner))
            .collect();
        problem
    }

    /// The choices of a type that no other dominates, whatever the other types' choices are; of equal ones the
    /// first.
    fn undominated(&self, owner: usize) -> Vec<usize> {
        let mut kept: Vec<usize> = Vec::new();
        for place in 0..self.scores[owner].len() {
            if kept
                .iter()
                .any(|other| self.dominates(owner, *other, place))
            {
                continue;
            }
            kept.retain(|other| !self.dominates(owner, place, *other));
            kept.push(place);
        }
        kept
    }

    /// Whether one choice of a type is at least as good as another in every respect.
    fn dominates(&self, owner: usize, good: usize, place: usize) -> bool {
        let scores = |(table, column, score): &(usize, usize, Score)| {
            let same = |s: &&(usize, usize, Score)| s.0 == *table && s.1 == *column;
            let of_good = self.scores[owner][good].iter().find(same);
            of_good.is_some_and(|s| s.2.0 >= score.0 && s.2.1 >= score.1)
        };
        let pairs = self.of_type[owner].iter().map(|p| &self.pairs[*p]);
        let mut each = pairs.flat_map(|pair| {
            let width = match pair.one == owner {
                true => pair.width,
                false => pair.outcomes.len() / pair.width,
            };
            let is_self = pair.one == pair.other;
            let others = if is_self { 0..1 } else { 0..width };
            others.map(move |other| {
                let at = |mine: usize| match (is_self, pair.one == owner) {
                    (true, _) => self.outcome(pair, mine, mine),
                    (false, true) => self.outcome(pair, mine, other),
                    (false, false) => self.outcome(pair, other, mine),
                };
                (at(good), at(place))
            })
        });
        let no_worse = |(good, other): (Outcome, Outcome)| {
            good.crosses <= other.crosses
                && good.by_one <= other.by_one
                && good.by_other <= other.by_other
        };
        self.scores[owner][place].iter().all(scores) && each.all(no_worse)
    }

    fn outcome(&self, pair: &Pair, of_one: usize, of_other: usize) -> Outcome {
        pair.outcomes[of_one * pair.width + of_other]
    }

    /// The best column of each table (the first among equals) for a choice.
    pub(crate) fn columns_for(&self, choice: &[usize]) -> Vec<Option<(usize, Score)>> {
        let mut totals = self.no_totals();
        for (of_type, choice) in self.scores.iter().zip(choice) {
            add_all(&mut totals, &of_type[*choice]);
        }
        totals.iter().map(|columns| best(columns)).collect()
    }

    fn no_totals(&self) -> Vec<Vec<Score>> {
        self.columns.iter().map(|n| vec![(0, 0); *n]).collect()
    }

    /// The worth of a whole choice.
    pub(crate) fn worth(&self, choice: &[usize]) -> Worth {
        let mut cost = 0u64;
        let mut ordered = vec![false; choice.len()];
        for pair in &self.pairs {
            let outcome = self.outcome(pair, choice[pair.one], choice[pair.other]);
            if outcome.crosses {
                cost = cost.saturating_add(pair.cost);
            }
            ordered[pair.one] |= outcome.by_one;
            ordered[pair.other] |= outcome.by_other;
        }
        let ordered = ordered.iter().zip(&self.weights).filter(|(o, _)| **o);
        let ordered = ordered.fold(0u64, |sum, (_, weight)| sum.saturating_add(*weight));
        let columns = self.columns_for(choice).into_iter().flatten();
        let score = columns.fold((0, 0), |sum, (_, score)| add(sum, score));
        (cost, ordered, Reverse(score))
    }

    /// The best choice. `starts` are further choices to climb from.
    pub(crate) fn search(
        &self,
        starts: impl Iterator<Item = Vec<usize>>,
        choices_max: usize,
    ) -> Found {
        let mut sizes = self.undominated.iter().map(Vec::len);
        let choices = sizes.try_fold(1usize, |n, size| n.checked_mul(size));
        let few = choices.is_some_and(|n| n <= choices_max);
        let mut known: Option<(Worth, Vec<usize>)> = None;
        if !few {
            let none = self.scores.iter().map(|s| s.len() - 1).collect();
            let starts = [none].into_iter().chain(starts).take(STARTS_MAX);
            for start in starts {
                let reached = self.climb(start);
                if known.as_ref().is_none_or(|(worth, _)| reached.0 < *worth) {
                    known = Some(reached);
                }
            }
        }
        // Prefixes of few choices are at most twice as many.
        let left = if few { choices_max * 2 } else { choices_max };
        let mut walk = BranchAndBound::new(self, known, left);
        walk.run();
        let is_exhaustive = !walk.stopped;
        let (worth, choice) = walk.best.unwrap_or_else(|| {
            let choice: Vec<usize> = self.scores.iter().map(|s| s.len() - 1).collect();
            (self.worth(&choice), choice)
        });
        Found {
            choice,
            worth,
            is_exhaustive,
        }
    }

    /// Changes one type's choice after the other as long as something improves.
    fn climb(&self, mut choice: Vec<usize>) -> (Worth, Vec<usize>) {
        // For each type, the number of pairs in which what it writes matters on another server.
        let mut crossings = vec![0usize; choice.len()];
        let mut totals = self.no_totals();
        for (owner, place) in choice.iter().enumerate() {
            add_all(&mut totals, &self.scores[owner][*place]);
        }
        for pair in &self.pairs {
            let outcome = self.outcome(pair, choice[pair.one], choice[pair.other]);
            crossings[pair.one] += usize::from(outcome.by_one);
            if pair.one != pair.other {
                crossings[pair.other] += usize::from(outcome.by_other);
            }
        }
        for _ in 0..ROUNDS_MAX {
            let mut improved = false;
            for owner in 0..choice.len() {
                let now = choice[owner];
                remove_all(&mut totals, &self.scores[owner][now]);
                let mut best_of = (
                    self.partial_worth(owner, now, &choice, &crossings, &totals),
                    now,
                );
                for place in self.undominated[owner].iter().copied() {
                    let worth = self.partial_worth(owner, place, &choice, &crossings, &totals);
                    if worth < best_of.0 {
                        best_of = (worth, place);
                    }
                }
                let place = best_of.1;
                add_all(&mut totals, &self.scores[owner][place]);
                if place != now {
                    self.change(owner, place, &mut choice, &mut crossings);
                    improved = true;
                }
            }
            if !improved {
                break;
            }
        }
        (self.worth(&choice), choice)
    }

    /// The part of the worth that depends on a type's choice. `totals` are without the type.
    fn partial_worth(
        &self,
        owner: usize,
        place: usize,
        choice: &[usize],
        crossings: &[usize],
        totals: &[Vec<Score>],
    ) -> Worth {
        let (mut cost, mut ordered, mut own) = (0u64, 0u64, false);
        for pair in self.of_type[owner].iter().map(|p| &self.pairs[*p]) {
            let at = |of: usize| if of == owner { place } else { choice[of] };
            let then = self.outcome(pair, at(pair.one), at(pair.other));
            let now = self.outcome(pair, choice[pair.one], choice[pair.other]);
            if then.crosses {
                cost = cost.saturating_add(pair.cost);
            }
            let (mine, theirs, before, beside) = match pair.one == owner {
                true => (then.by_one, then.by_other, now.by_other, pair.other),
                false => (then.by_other, then.by_one, now.by_one, pair.one),
            };
            own |= mine;
            if beside != owner {
                let others = crossings[beside] - usize::from(before);
                if others + usize::from(theirs) > 0 {
                    ordered = ordered.saturating_add(self.weights[beside]);
                }
            }
        }
        if own {
            ordered = ordered.saturating_add(self.weights[owner]);
        }
        let mut score: Score = (0, 0);
        let scored = &self.scores[owner][place];
        let mut tables: Vec<usize> = self.scores[owner].iter().flatten().map(|s| s.0).collect();
        tables.sort_unstable();
        tables.dedup();
        for table in tables {
            let mut columns = totals[table].clone();
            for (_, column, more) in scored.iter().filter(|s| s.0 == table) {
                columns[*column] = add(columns[*column], *more);
            }
            score = add(score, best(&columns).map_or((0, 0), |(_, score)| score));
        }
        (cost, ordered, Reverse(score))
    }

    fn change(&self, owner: usize, place: usize, choice: &mut [usize], crossings: &mut [usize]) {
        let before = choice[owner];
        for (at, sign) in [(before, false), (place, true)] {
            choice[owner] = at;
            for pair in self.of_type[owner].iter().map(|p| &self.pairs[*p]) {
                let outcome = self.outcome(pair, choice[pair.one], choice[pair.other]);
                let mut count = |of: usize, by: bool| match sign {
                    true => crossings[of] += usize::from(by),
                    false => crossings[of] -= usize::from(by),
                };
                count(pair.one, outcome.by_one);
                if pair.one != pair.other {
                    count(pair.other, outcome.by_other);
                }
            }
        }
    }
}

/// Goes through the choices of one type after the other.
struct BranchAndBound<'p> {
    problem: &'p Problem,
    best: Option<(Worth, Vec<usize>)>,
    choice: Vec<usize>,
    /// The cost of conflicts among decided types, and the least that the others add.
    cost: u64,
    rest: u64,
    /// For each undecided type, the cost of each of its choices beside the decided ones.
    beside: Vec<Vec<u64>>,
    crossings: Vec<usize>,
    ordered: u64,
    totals: Vec<Vec<Score>>,
    /// The most that each type can add to each total, and that all undecided types can.
    most: Vec<Scored>,
    open: Vec<Vec<Score>>,
    left: usize,
    stopped: bool,
}

impl<'p> BranchAndBound<'p> {
    fn new(
        problem: &'p Problem,
        best: Option<(Worth, Vec<usize>)>,
        left: usize,
    ) -> BranchAndBound<'p> {
        let count = problem.scores.len();
        let most: Vec<Scored> = problem.scores.iter().map(|s| most_of(s)).collect();
        let mut open = problem.no_totals();
        most.iter().for_each(|most| add_all(&mut open, most));
        let mut beside: Vec<Vec<u64>> = problem.scores.iter().map(|s| vec![0; s.len()]).collect();
        for pair in problem.pairs.iter().filter(|p| p.one == p.other) {
            for (place, cost) in beside[pair.one].iter_mut().enumerate() {
                if problem.outcome(pair, place, place).crosses {
                    *cost = cost.saturating_add(pair.cost);
                }
            }
        }
        let undominated = &problem.undominated;
        let rest = beside
            .iter()
            .zip(undominated)
            .map(|(b, w)| least(b, w))
            .sum();
        BranchAndBound {
            problem,
            best,
            choice: Vec::with_capacity(count),
            cost: 0,
            rest,
            beside,
            crossings: vec![0; count],
            ordered: 0,
            totals: problem.no_totals(),
            most,
            open,
            left,
            stopped: false,
        }
    }

    fn run(&mut self) {
        let count = self.problem.scores.len();
        let mut next = vec![0; count + 1];
        loop {
            let owner = self.choice.len();
            let is_done = owner == count;
            if is_done && self.improves() {
                self.best = Some((self.bound(), self.choice.clone()));
            }
            if is_done || next[owner] == self.problem.undominated[owner].len() {
                if owner == 0 {
                    return;
                }
                self.decide(owner - 1, self.choice[owner - 1], false);
                continue;
            }
            if self.left == 0 {
                self.stopped = true;
                return;
            }
            self.left -= 1;
            let place = self.problem.undominated[owner][next[owner]];
            next[owner] += 1;
            self.decide(owner, place, true);
            match self.improves() {
                true => next[owner + 1] = 0,
                false => self.decide(owner, place, false),
            }
        }
    }

    fn improves(&self) -> bool {
        let bound = self.bound();
        self.best.as_ref().is_none_or(|(best, _)| bound < *best)
    }

    /// Gives a type a choice, or takes it back.
    fn decide(&mut self, owner: usize, place: usize, forward: bool) {
        let problem = self.problem;
        let mine = least(&self.beside[owner], &problem.undominated[owner]);
        if forward {
            self.choice.push(place);
            self.rest -= mine;
            self.cost += self.beside[owner][place];
            remove_all(&mut self.open, &self.most[owner]);
            add_all(&mut self.totals, &problem.scores[owner][place]);
        }
        for pair in problem.of_type[owner].iter().map(|p| &problem.pairs[*p]) {
            let is_first = pair.one == owner;
            let other = if is_first { pair.other } else { pair.one };
            if other > owner {
                let costs = &mut self.beside[other];
                self.rest -= least(costs, &problem.undominated[other]);
                for (at, cost) in costs.iter_mut().enumerate() {
                    let outcome = match is_first {
                        true => problem.outcome(pair, place, at),
                        false => problem.outcome(pair, at, place),
                    };
                    match (outcome.crosses, forward) {
                        (true, true) => *cost += pair.cost,
                        (true, false) => *cost -= pair.cost,
                        _ => {}
                    }
                }
                self.rest += least(costs, &problem.undominated[other]);
                continue;
            }
            let outcome = problem.outcome(pair, self.choice[pair.one], self.choice[pair.other]);
            self.note(pair.one, outcome.by_one, forward);
            if pair.one != pair.other {
                self.note(pair.other, outcome.by_other, forward);
            }
        }
        if !forward {
            self.choice.pop();
            self.rest += mine;
            self.cost -= self.beside[owner][place];
            add_all(&mut self.open, &self.most[owner]);
            remove_all(&mut self.totals, &problem.scores[owner][place]);
        }
    }

    /// Counts one pair more or (backward) less in which what a type writes matters on another server.
    fn note(&mut self, of: usize, crosses: bool, forward: bool) {
        let (crossings, weight) = (&mut self.crossings[of], self.problem.weights[of]);
        match (crosses, forward) {
            (false, _) => {}
            (true, true) => {
                *crossings += 1;
                if *crossings == 1 {
                    self.ordered += weight;
                }
            }
            (true, false) => {
                *crossings -= 1;
                if *crossings == 0 {
                    self.ordered -= weight;
                }
            }
        }
    }

    /// An upper bound on the worth of all choices with this prefix; the worth itself, where everything is decided.
    fn bound(&self) -> Worth {
        let tables = self.totals.iter().zip(&self.open);
        let score = tables
            .filter_map(|(now, open)| now.iter().zip(open).map(|(n, o)| add(*n, *o)).max())
            .fold((0, 0), add);
        (self.cost + self.rest, self.ordered, Reverse(score))
    }
}

/// The least cost of a choice that is not dominated.
fn least(costs: &[u64], undominated: &[usize]) -> u64 {
    let costs = undominated.iter().map(|place| costs[*place]);
    costs.min().unwrap_or(0)
}

/// The most that a type can score, whatever its choice.
fn most_of(choices: &[Scored]) -> Scored {
    let mut most: BTreeMap<(usize, usize), Score> = BTreeMap::new();
    for (table, column, score) in choices.iter().flatten() {
        let known = most.entry((*table, *column)).or_default();
        *known = (known.0.max(score.0), known.1.max(score.1));
    }
    let most = most.into_iter();
    most.map(|((table, column), score)| (table, column, score))
        .collect()
}

fn add(a: Score, b: Score) -> Score {
    (a.0.saturating_add(b.0), a.1.saturating_add(b.1))
}

fn add_all(totals: &mut [Vec<Score>], scored: &Scored) {
    for (table, column, score) in scored {
        totals[*table][*column] = add(totals[*table][*column], *score);
    }
}

fn remove_all(totals: &mut [Vec<Score>], scored: &Scored) {
    for (table, column, score) in scored {
        let total = &mut totals[*table][*column];
        *total = (total.0 - score.0, total.1 - score.1);
    }
}

fn best(columns: &[Score]) -> Option<(usize, Score)> {
    let mut best: Option<(usize, Score)> = None;
    for (place, total) in columns.iter().enumerate() {
        if best.is_none_or(|(_, b)| *total > b) {
            best = Some((place, *total));
        }
    }
    best
}
