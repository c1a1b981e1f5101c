//! The built-in decision procedure: CDCL over [`Simplex`].
//!
//! Formulas become clauses (Tseitin's transformation in one direction, since negations have been pushed down to
//! literals), and comparisons become bounds on sums. The search is that of a CDCL solver: it propagates clauses,
//! asserts the bounds of what is set, learns from each conflict a clause at its first unique implication point, and
//! jumps back to where that clause forces a literal. It is deterministic, and limited by counts, never by a clock.

use std::collections::BTreeMap;

use super::formula::{Assigned, Formula, Linear, Problem, Relation, Sort, Variable};
use super::rational::{Overflow, Rational, common_divisor};
use super::simplex::{DeltaRational, End, Found, Simplex};
use super::{Answer, Effort};

/// A literal: twice the number of its proposition, and one more where it is negated.
type Literal = u32;

fn opposite(literal: Literal) -> Literal {
    literal ^ 1
}

fn proposition(literal: Literal) -> usize {
    (literal >> 1) as usize
}

/// The translation of a formula.
#[derive(Clone, Copy)]
enum Node {
    Constant(bool),
    Literal(Literal),
}

/// A proposition that bounds a variable: from above where it is true, from below where it is not.
#[derive(Clone, Copy, Debug)]
struct Atom {
    variable: usize,
    /// The upper bound where it is true.
    most: DeltaRational,
    /// The lower bound where it is false.
    least: DeltaRational,
}

/// Decides a problem.
pub(super) fn decide(problem: &Problem, effort: Effort) -> Answer {
    match try_decide(problem, effort) {
        Ok(answer) => answer,
        Err(overflow) => Answer::Unknown(overflow.to_string()),
    }
}

fn try_decide(problem: &Problem, effort: Effort) -> Result<Answer, Overflow> {
    let mut search = Search::new(problem, effort);
    for formula in problem.asserted() {
        search.demand(formula)?;
    }
    search.order_bounds();
    if search.is_void {
        return Ok(Answer::Unsatisfiable);
    }
    search.run()
}

struct Search<'p> {
    problem: &'p Problem,
    effort: Effort,
    simplex: Simplex,
    /// By [`Variable`]: its variable of the simplex, or its proposition if it is a flag.
    places: Vec<usize>,
    sums: BTreeMap<Vec<(Variable, Rational)>, usize>,
    atoms: BTreeMap<usize, Atom>,
    /// Propositions by the bound that they state.
    bounded: BTreeMap<(usize, DeltaRational), usize>,
    clauses: Vec<Vec<Literal>>,
    /// By literal: the clauses that watch it.
    watches: Vec<Vec<usize>>,
    values: Vec<Option<bool>>,
    levels: Vec<usize>,
    reasons: Vec<Option<usize>>,
    activity: Vec<u64>,
    trail: Vec<Literal>,
    /// How much of the trail has been propagated, by clauses and by bounds.
    propagated: usize,
    bounded_up_to: usize,
    /// Where each level begins on the trail, and the simplex's mark there.
    level_starts: Vec<(usize, usize)>,
    is_void: bool,
}

impl<'p> Search<'p> {
    fn new(problem: &'p Problem, effort: Effort) -> Search<'p> {
        let mut search = Search {
            problem,
            effort,
            simplex: Simplex::default(),
            places: Vec::new(),
            sums: BTreeMap::new(),
            atoms: BTreeMap::new(),
            bounded: BTreeMap::new(),
            clauses: Vec::new(),
            watches: Vec::new(),
            values: Vec::new(),
            levels: Vec::new(),
            reasons: Vec::new(),
            activity: Vec::new(),
            trail: Vec::new(),
            propagated: 0,
            bounded_up_to: 0,
            level_starts: Vec::new(),
            is_void: false,
        };
        for (_, sort) in problem.variables() {
            let place = match sort {
                Sort::Flag => search.proposition(),
                Sort::Whole => search.simplex.variable(true),
                Sort::Fraction => search.simplex.variable(false),
            };
            search.places.push(place);
        }
        search
    }

    fn proposition(&mut self) -> usize {
        self.values.push(None);
        self.levels.push(0);
        self.reasons.push(None);
        self.activity.push(0);
        self.watches.extend([Vec::new(), Vec::new()]);
        self.values.len() - 1
    }

    // --- Formulas to clauses -----------------------------------------------------------------

    fn demand(&mut self, formula: &Formula) -> Result<(), Overflow> {
        match formula {
            Formula::And(parts) => {
                for part in parts {
                    self.demand(part)?;
                }
            }
            Formula::Or(parts) => {
                let mut clause = Vec::new();
                for part in parts {
                    match self.node(part, true)? {
                        Node::Constant(true) => return Ok(()),
                        Node::Constant(false) => {}
                        Node::Literal(literal) => clause.push(literal),
                    }
                }
                self.clause(clause);
            }
            other => match self.node(other, true)? {
                Node::Constant(true) => {}
                Node::Constant(false) => self.clause(Vec::new()),
                Node::Literal(literal) => self.clause(vec![literal]),
            },
        }
        Ok(())
    }

    /// A literal that implies the formula (or, if `wanted` is false, its negation).
    fn node(&mut self, formula: &Formula, wanted: bool) -> Result<Node, Overflow> {
        match formula {
            Formula::Constant(truth) => Ok(Node::Constant(*truth == wanted)),
            Formula::Flag(flag) => {
                let literal = 2 * self.places[flag.index()] as Literal;
                Ok(Node::Literal(literal + u32::from(!wanted)))
            }
            Formula::Not(inner) => self.node(inner, !wanted),
            Formula::And(parts) => self.several(parts, wanted, wanted),
            Formula::Or(parts) => self.several(parts, wanted, !wanted),
            Formula::Compare(linear, relation) => self.comparison(linear, *relation, wanted),
        }
    }

    /// A literal that implies all of the parts, or (`all` false) at least one of them.
    fn several(&mut self, parts: &[Formula], wanted: bool, all: bool) -> Result<Node, Overflow> {
        let mut nodes = Vec::new();
        for part in parts {
            nodes.push(self.node(part, wanted)?);
        }
        Ok(self.join(nodes, all))
    }

    fn join(&mut self, nodes: Vec<Node>, all: bool) -> Node {
        let mut literals = Vec::new();
        for node in nodes {
            match node {
                Node::Constant(truth) if truth == all => {}
                Node::Constant(truth) => return Node::Constant(truth),
                Node::Literal(literal) => literals.push(literal),
            }
        }
        match literals.as_slice() {
            [] => Node::Constant(all),
            [one] => Node::Literal(*one),
            _ => {
                let whole = 2 * self.proposition() as Literal;
                if all {
                    for literal in literals {
                        self.clause(vec![opposite(whole), literal]);
                    }
                } else {
                    literals.push(opposite(whole));
                    self.clause(literals);
                }
                Node::Literal(whole)
            }
        }
    }

    fn comparison(
        &mut self,
        linear: &Linear,
        relation: Relation,
        wanted: bool,
    ) -> Result<Node, Overflow> {
        if relation != Relation::Equal {
            return self.atom(linear, relation == Relation::Below, wanted);
        }
        let turned = linear.times(Rational::whole(-1))?;
        // Equal is both at most and at least; unequal is below or above.
        let one = self.atom(linear, !wanted, true)?;
        let other = self.atom(&turned, !wanted, true)?;
        Ok(self.join(vec![one, other], wanted))
    }

    /// A literal for `linear <= 0`, or `linear < 0`, or the negation.
    fn atom(&mut self, linear: &Linear, strict: bool, wanted: bool) -> Result<Node, Overflow> {
        let Some((_, first)) = linear.terms().first() else {
            let truth = match strict {
                true => linear.offset().is_negative(),
                false => !linear.offset().is_positive(),
            };
            return Ok(Node::Constant(truth == wanted));
        };
        let whole =
            |(variable, _): &(Variable, Rational)| self.problem.sort(*variable) == Sort::Whole;
        let all_whole = linear.terms().iter().all(whole);
        // Divides by the common factor and makes the first factor positive, so that equal sums have one variable.
        let mut divisor = 0;
        let mut multiple: i128 = 1;
        for (_, factor) in linear.terms() {
            let denominator = factor.denominator();
            let common = common_divisor(multiple, denominator);
            multiple = multiple.checked_mul(denominator / common).ok_or(Overflow)?;
        }
        for (_, factor) in linear.terms() {
            let scaled = factor.times(Rational::whole(multiple))?;
            divisor = common_divisor(divisor, scaled.numerator());
        }
        let scale = Rational::new(multiple, divisor)?;
        let turned = first.is_negative();
        let scale = if turned { scale.negated() } else { scale };
        let scaled = linear.times(scale)?;
        let limit = scaled.offset().negated();
        // sum <= limit where it was not turned; sum >= limit where it was: not (sum < limit).
        let (strict, wanted) = match turned {
            false => (strict, wanted),
            true => (!strict, !wanted),
        };
        let atom = if all_whole {
            // sum < limit of whole numbers is sum <= ceiling of limit, less one.
            let most = match strict {
                true => limit.negated().floor().negated().minus(Rational::ONE)?,
                false => limit.floor(),
            };
            (
                DeltaRational::at(most),
                DeltaRational::at(most.plus(Rational::ONE)?),
            )
        } else if strict {
            (DeltaRational::beside(limit, -1), DeltaRational::at(limit))
        } else {
            (DeltaRational::at(limit), DeltaRational::beside(limit, 1))
        };
        let variable = self.sum(scaled.terms(), all_whole);
        let (most, least) = atom;
        let found = self.bounded.get(&(variable, most)).copied();
        let proposition = found.unwrap_or_else(|| {
            let proposition = self.proposition();
            self.bounded.insert((variable, most), proposition);
            let atom = Atom {
                variable,
                most,
                least,
            };
            self.atoms.insert(proposition, atom);
            proposition
        });
        Ok(Node::Literal(
            2 * proposition as Literal + u32::from(!wanted),
        ))
    }

    fn sum(&mut self, terms: &[(Variable, Rational)], whole: bool) -> usize {
        let place =
            |(variable, factor): &(Variable, Rational)| (self.places[variable.index()], *factor);
        if let [(variable, Rational::ONE)] = terms {
            return self.places[variable.index()];
        }
        if let Some(found) = self.sums.get(terms) {
            return *found;
        }
        let of_places: Vec<(usize, Rational)> = terms.iter().map(place).collect();
        let sum = self.simplex.sum(&of_places, whole);
        self.sums.insert(terms.to_vec(), sum);
        sum
    }

    /// Adds the implications between bounds of one variable: a lower upper bound implies a higher one.
    fn order_bounds(&mut self) {
        let ordered: Vec<(usize, usize)> = self
            .bounded
            .iter()
            .map(|((variable, _), proposition)| (*variable, *proposition))
            .collect();
        for pair in ordered.windows(2) {
            let [(of, less), (also, more)] = pair else {
                continue;
            };
            if of == also {
                self.clause(vec![2 * *less as Literal + 1, 2 * *more as Literal]);
            }
        }
    }

    /// Adds a clause before the search begins.
    fn clause(&mut self, mut literals: Vec<Literal>) {
        literals.sort_unstable();
        literals.dedup();
        if literals.windows(2).any(|pair| pair[0] == opposite(pair[1])) {
            return;
        }
        self.is_void |= literals.is_empty();
        self.watch(literals);
    }

    fn watch(&mut self, literals: Vec<Literal>) -> usize {
        let clause = self.clauses.len();
        for literal in literals.iter().take(2) {
            self.watches[*literal as usize].push(clause);
        }
        self.clauses.push(literals);
        clause
    }

    // --- The search --------------------------------------------------------------------------

    fn value(&self, literal: Literal) -> Option<bool> {
        self.values[proposition(literal)].map(|value| value != (literal & 1 == 1))
    }

    fn set(&mut self, literal: Literal, reason: Option<usize>) {
        let of = proposition(literal);
        self.values[of] = Some(literal & 1 == 0);
        self.levels[of] = self.level_starts.len();
        self.reasons[of] = reason;
        self.trail.push(literal);
    }

    fn run(&mut self) -> Result<Answer, Overflow> {
        let alone: Vec<usize> = (0..self.clauses.len())
            .filter(|clause| self.clauses[*clause].len() == 1)
            .collect();
        for clause in alone {
            let literal = self.clauses[clause][0];
            match self.value(literal) {
                Some(true) => {}
                Some(false) => return Ok(Answer::Unsatisfiable),
                None => self.set(literal, Some(clause)),
            }
        }
        let mut conflicts = 0;
        let mut gave_up = false;
        loop {
            let conflict = match self.propagate() {
                Some(clause) => Some(self.clauses[clause].clone()),
                None => self.propagate_bounds()?,
            };
            let conflict = match conflict {
                Some(conflict) => conflict,
                None => match self.next() {
                    Some(literal) => {
                        self.level_starts
                            .push((self.trail.len(), self.simplex.mark()));
                        self.set(literal, None);
                        continue;
                    }
                    None => {
                        let mark = self.simplex.mark();
                        let mut splits = self.effort.splits_max;
                        match self.simplex.check_whole(&mut splits)? {
                            Found::Numbers => return self.model(),
                            Found::Conflict(reasons) => reasons.into_iter().map(opposite).collect(),
                            Found::GaveUp => {
                                // The theory gave up on this assignment: exclude it, and never answer
                                // unsatisfiable.
                                gave_up = true;
                                self.simplex.restore(mark);
                                let decided = self.trail.iter().filter(|literal| {
                                    self.reasons[proposition(**literal)].is_none()
                                });
                                decided.map(|literal| opposite(*literal)).collect()
                            }
                        }
                    }
                },
            };
            conflicts += 1;
            if conflicts % 64 == 0 {
                self.activity.iter_mut().for_each(|activity| *activity /= 2);
            }
            if conflicts > self.effort.conflicts_max {
                return Ok(Answer::Unknown(format!(
                    "more than {} conflicts were needed",
                    self.effort.conflicts_max
                )));
            }
            if !self.learn(conflict) {
                return Ok(match gave_up {
                    true => Answer::Unknown("whole numbers were split too often".into()),
                    false => Answer::Unsatisfiable,
                });
            }
        }
    }

    /// Propagates clauses; returns a clause that is violated.
    fn propagate(&mut self) -> Option<usize> {
        while let Some(literal) = self.trail.get(self.propagated).copied() {
            self.propagated += 1;
            let gone = opposite(literal);
            let watching = std::mem::take(&mut self.watches[gone as usize]);
            let mut at = 0;
            let mut kept = Vec::with_capacity(watching.len());
            while at < watching.len() {
                let clause = watching[at];
                at += 1;
                if self.clauses[clause].len() < 2 {
                    kept.push(clause);
                    if self.value(self.clauses[clause][0]) == Some(false) {
                        kept.extend(&watching[at..]);
                        self.watches[gone as usize] = kept;
                        return Some(clause);
                    }
                    continue;
                }
                if self.clauses[clause][0] == gone {
                    self.clauses[clause].swap(0, 1);
                }
                let other = self.clauses[clause][0];
                if self.value(other) == Some(true) {
                    kept.push(clause);
                    continue;
                }
                let next = (2..self.clauses[clause].len())
                    .find(|i| self.value(self.clauses[clause][*i]) != Some(false));
                if let Some(next) = next {
                    self.clauses[clause].swap(1, next);
                    let watched = self.clauses[clause][1];
                    self.watches[watched as usize].push(clause);
                    continue;
                }
                kept.push(clause);
                if self.value(other) == Some(false) {
                    kept.extend(&watching[at..]);
                    self.watches[gone as usize] = kept;
                    return Some(clause);
                }
                self.set(other, Some(clause));
            }
            self.watches[gone as usize] = kept;
        }
        None
    }

    /// Asserts the bounds of what has been set; returns a clause that they contradict.
    fn propagate_bounds(&mut self) -> Result<Option<Vec<Literal>>, Overflow> {
        let mut is_new = false;
        while let Some(literal) = self.trail.get(self.bounded_up_to).copied() {
            self.bounded_up_to += 1;
            let Some(atom) = self.atoms.get(&proposition(literal)).copied() else {
                continue;
            };
            let (end, bound) = match literal & 1 == 0 {
                true => (End::Upper, atom.most),
                false => (End::Lower, atom.least),
            };
            is_new = true;
            if let Some(reasons) = self.simplex.bound(atom.variable, end, bound, literal)? {
                return Ok(Some(reasons.into_iter().map(opposite).collect()));
            }
        }
        if !is_new {
            return Ok(None);
        }
        let reasons = self.simplex.check()?;
        Ok(reasons.map(|reasons| reasons.into_iter().map(opposite).collect()))
    }

    /// The next decision: the proposition most active in recent conflicts, negated.
    fn next(&self) -> Option<Literal> {
        let open = (0..self.values.len()).filter(|of| self.values[*of].is_none());
        let best = open.max_by_key(|of| (self.activity[*of], std::cmp::Reverse(*of)));
        best.map(|of| 2 * of as Literal + 1)
    }

    /// Learns from a violated clause; returns false if the problem is unsatisfiable.
    fn learn(&mut self, conflict: Vec<Literal>) -> bool {
        let level_of =
            |search: &Search<'_>, literal: &Literal| search.levels[proposition(*literal)];
        let deepest = conflict.iter().map(|literal| level_of(self, literal)).max();
        let Some(level) = deepest.filter(|level| *level > 0) else {
            return false;
        };
        self.backjump(level);
        let mut seen = vec![false; self.values.len()];
        let mut learnt: Vec<Literal> = Vec::new();
        let mut open = 0;
        let mut pending = conflict;
        let mut at = self.trail.len();
        let last = loop {
            for literal in pending.drain(..) {
                let of = proposition(literal);
                if std::mem::replace(&mut seen[of], true) || self.levels[of] == 0 {
                    continue;
                }
                self.activity[of] += 1;
                if self.levels[of] == level {
                    open += 1;
                } else {
                    learnt.push(literal);
                }
            }
            let literal = loop {
                at -= 1;
                let literal = self.trail[at];
                if seen[proposition(literal)] && self.levels[proposition(literal)] == level {
                    break literal;
                }
            };
            open -= 1;
            if open == 0 {
                break opposite(literal);
            }
            if let Some(reason) = self.reasons[proposition(literal)] {
                let others = self.clauses[reason].iter().copied();
                pending.extend(others.filter(|other| *other != literal));
            }
        };
        let back = learnt.iter().map(|literal| level_of(self, literal)).max();
        let back = back.unwrap_or(0);
        // The literal that is unset last is watched beside the forced one.
        if let Some(latest) = learnt.iter().position(|l| level_of(self, l) == back) {
            learnt.swap(0, latest);
        }
        learnt.insert(0, last);
        self.backjump(back);
        let clause = self.watch(learnt);
        self.set(last, Some(clause));
        true
    }

    /// Unsets everything beyond a level.
    fn backjump(&mut self, level: usize) {
        let Some((start, mark)) = self.level_starts.get(level).copied() else {
            return;
        };
        for literal in self.trail.drain(start..) {
            self.values[proposition(literal)] = None;
        }
        self.level_starts.truncate(level);
        self.propagated = self.propagated.min(start);
        self.bounded_up_to = self.bounded_up_to.min(start);
        self.simplex.restore(mark);
    }

    fn model(&self) -> Result<Answer, Overflow> {
        let numbers = self.simplex.numbers()?;
        let variables = self.problem.variables().iter().zip(&self.places);
        let model: Vec<Assigned> = variables
            .map(|((_, sort), place)| match sort {
                Sort::Flag => Assigned::Flag(self.values[*place] == Some(true)),
                Sort::Whole | Sort::Fraction => Assigned::Number(numbers[*place]),
            })
            .collect();
        Ok(match self.problem.is_satisfied(&model)? {
            true => Answer::Satisfiable(Some(model)),
            false => Answer::Unknown("what was found does not satisfy the problem".into()),
        })
    }
}
