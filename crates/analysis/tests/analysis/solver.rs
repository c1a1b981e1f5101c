//! The built-in solver, compared with a naive twin that tries every value, and with Z3.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;

use anabranch_analysis::solve::{
    Answer, Assigned, Decide, Effort, Formula, Linear, Problem, Rational, Relation, Solver, Sort,
    Variable, smtlib,
};
use anabranch_types::SplitMix64;

/// A pseudo-random number generator.
struct Random(SplitMix64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        (self.0.bits() >> 16) % n
    }

    fn between(&mut self, least: i128, most: i128) -> Rational {
        Rational::whole(least + i128::from(self.below((most - least + 1) as u64)))
    }
}

/// A random problem: numbers and flags, and conditions on them.
struct MadeUp {
    problem: Problem,
    numbers: Vec<Variable>,
    flags: Vec<Variable>,
}

fn made_up(random: &mut Random, sort: Sort, bounded: Option<i128>) -> MadeUp {
    let mut problem = Problem::default();
    let numbers: Vec<Variable> = (0..1 + random.below(3))
        .map(|i| problem.variable(format!("x{i}"), sort))
        .collect();
    let flags: Vec<Variable> = (0..random.below(4))
        .map(|i| problem.variable(format!("f{i}"), Sort::Flag))
        .collect();
    let mut made = MadeUp {
        problem,
        numbers,
        flags,
    };
    if let Some(most) = bounded {
        for number in made.numbers.clone() {
            let (x, most) = (Linear::variable(number), Rational::whole(most));
            for (less, more) in [
                (&Linear::constant(most.negated()), &x),
                (&x, &Linear::constant(most)),
            ] {
                let within = Formula::compare(less, Relation::AtMost, more).unwrap();
                made.problem.assert(within);
            }
        }
    }
    for _ in 0..1 + random.below(7) {
        let formula = made.formula(random, 3);
        made.problem.assert(formula);
    }
    made
}

impl MadeUp {
    fn formula(&self, random: &mut Random, depth: u32) -> Formula {
        let leaf = depth == 0 || random.below(3) == 0;
        if leaf && !self.flags.is_empty() && random.below(3) == 0 {
            let flag = self.flags[random.below(self.flags.len() as u64) as usize];
            return Formula::Flag(flag);
        }
        if leaf {
            let mut sum = Linear::constant(random.between(-4, 4));
            for number in &self.numbers {
                let factor = random.between(-3, 3);
                sum = sum
                    .plus(&Linear::variable(*number).times(factor).unwrap())
                    .unwrap();
            }
            let relation = [Relation::Equal, Relation::AtMost, Relation::Below];
            let relation = relation[random.below(3) as usize];
            return Formula::compare(&sum, relation, &Linear::constant(Rational::ZERO)).unwrap();
        }
        let parts: Vec<Formula> = (0..2 + random.below(2))
            .map(|_| self.formula(random, depth - 1))
            .collect();
        match random.below(4) {
            0 => Formula::all(parts),
            1 => Formula::any(parts),
            2 => Formula::Not(Box::new(Formula::And(parts))),
            _ => parts[0].clone().equals(parts[1].clone()),
        }
    }

    /// Whether some values out of `domain`, all of which are tried, satisfy it.
    fn by_trying(&self, domain: &[Rational]) -> bool {
        let mut model: Vec<Assigned> = Vec::new();
        for (_, sort) in self.problem.variables() {
            model.push(match sort {
                Sort::Flag => Assigned::Flag(false),
                _ => Assigned::Number(domain[0]),
            });
        }
        let mut places = vec![0; model.len()];
        loop {
            if naive(&self.problem, &model) {
                return true;
            }
            let mut at = 0;
            loop {
                let Some(place) = places.get_mut(at) else {
                    return false;
                };
                let size = match self.problem.variables()[at].1 {
                    Sort::Flag => 2,
                    _ => domain.len(),
                };
                *place = (*place + 1) % size;
                model[at] = match self.problem.variables()[at].1 {
                    Sort::Flag => Assigned::Flag(*place == 1),
                    _ => Assigned::Number(domain[*place]),
                };
                if *place != 0 {
                    break;
                }
                at += 1;
            }
        }
    }
}

/// Whether a model satisfies a problem, by direct evaluation.
fn naive(problem: &Problem, model: &[Assigned]) -> bool {
    fn holds(formula: &Formula, model: &[Assigned]) -> bool {
        match formula {
            Formula::Constant(truth) => *truth,
            Formula::Flag(flag) => model[flag.index()] == Assigned::Flag(true),
            Formula::Compare(linear, relation) => {
                let mut sum = linear.offset();
                for (variable, factor) in linear.terms() {
                    let Assigned::Number(number) = model[variable.index()] else {
                        panic!("a flag among numbers");
                    };
                    sum = sum.plus(number.times(*factor).unwrap()).unwrap();
                }
                match relation {
                    Relation::Equal => sum.is_zero(),
                    Relation::AtMost => !sum.is_positive(),
                    Relation::Below => sum.is_negative(),
                }
            }
            Formula::Not(inner) => !holds(inner, model),
            Formula::And(parts) => parts.iter().all(|part| holds(part, model)),
            Formula::Or(parts) => parts.iter().any(|part| holds(part, model)),
        }
    }
    problem
        .asserted()
        .iter()
        .all(|formula| holds(formula, model))
}

fn solver() -> Solver {
    Solver::Builtin(Effort::default())
}

/// The number of problems of each kind.
fn problems() -> u64 {
    match std::env::var_os("ANABRANCH_QUICK") {
        Some(_) => 1_000,
        None => 4_000,
    }
}

#[test]
fn whole_numbers_are_decided_as_by_exhaustive_search() {
    let domain: Vec<Rational> = (-3..=3).map(Rational::whole).collect();
    let mut told = [0, 0];
    for seed in 0..problems() {
        let mut random = Random(SplitMix64::stream(seed, "whole", 0));
        let made = made_up(&mut random, Sort::Whole, Some(3));
        let some = made.by_trying(&domain);
        let text = || smtlib::print(&made.problem).unwrap();
        match solver().decide(&made.problem) {
            Answer::Satisfiable(Some(model)) => {
                assert!(
                    some && naive(&made.problem, &model),
                    "seed {seed}: {}",
                    text()
                );
            }
            Answer::Unsatisfiable => assert!(!some, "seed {seed}: {}", text()),
            other => panic!("seed {seed}: {other:?}: {}", text()),
        }
        told[usize::from(some)] += 1;
    }
    assert!(told.iter().all(|n| n * 10 > problems()), "{told:?}");
}

#[test]
fn what_some_fractions_satisfy_is_satisfiable() {
    let mut domain = Vec::new();
    for denominator in 1..=3 {
        for numerator in -2 * denominator..=2 * denominator {
            domain.push(Rational::new(numerator, denominator).unwrap());
        }
    }
    domain.sort_unstable();
    domain.dedup();
    let (mut found, mut refuted) = (0, 0);
    for seed in 0..problems() {
        let mut random = Random(SplitMix64::stream(seed, "fractions", 0));
        let made = made_up(&mut random, Sort::Fraction, None);
        let text = || smtlib::print(&made.problem).unwrap();
        match solver().decide(&made.problem) {
            Answer::Satisfiable(Some(model)) => {
                assert!(naive(&made.problem, &model), "seed {seed}: {}", text());
                found += 1;
            }
            Answer::Unsatisfiable => {
                assert!(!made.by_trying(&domain), "seed {seed}: {}", text());
                refuted += 1;
            }
            other => panic!("seed {seed}: {other:?}: {}", text()),
        }
    }
    assert!(
        found * 10 > problems() && refuted * 10 > problems(),
        "{found} {refuted}"
    );
}

#[test]
fn whole_numbers_without_bounds_are_not_split_for_ever() {
    // 3x - 3y = 1 has solutions, but no whole ones.
    let mut problem = Problem::default();
    let [x, y] = ["x", "y"].map(|name| Linear::variable(problem.variable(name, Sort::Whole)));
    let three = Rational::whole(3);
    let difference = x.minus(&y).unwrap().times(three).unwrap();
    let one = Linear::constant(Rational::ONE);
    problem.assert(Formula::equal(&difference, &one).unwrap());
    assert_eq!(solver().decide(&problem), Answer::Unsatisfiable);
    // x + y = 1 and x = y have the solution one half: a split shows that no whole numbers satisfy them, and without
    // one the answer is unknown.
    let mut problem = Problem::default();
    let [x, y] = ["x", "y"].map(|name| Linear::variable(problem.variable(name, Sort::Whole)));
    let sum = x.plus(&y).unwrap();
    problem.assert(Formula::equal(&sum, &one).unwrap());
    problem.assert(Formula::equal(&x, &y).unwrap());
    assert_eq!(solver().decide(&problem), Answer::Unsatisfiable);
    let unsplit = Solver::Builtin(Effort {
        splits_max: 0,
        ..Effort::default()
    });
    let reason = "whole numbers were split too often";
    assert_eq!(unsplit.decide(&problem), Answer::Unknown(reason.into()));
}

#[test]
fn numbers_that_do_not_fit_are_unknown() {
    let mut problem = Problem::default();
    let [x, y] = ["x", "y"].map(|name| Linear::variable(problem.variable(name, Sort::Whole)));
    let large = Rational::whole(i128::MAX / 5);
    let sum = x
        .times(large)
        .unwrap()
        .plus(&y.times(Rational::whole(7)).unwrap())
        .unwrap();
    let one = Linear::constant(Rational::ONE);
    problem.assert(Formula::equal(&sum, &one).unwrap());
    let difference = x.minus(&y.times(large).unwrap()).unwrap();
    problem.assert(Formula::equal(&difference, &one).unwrap());
    match solver().decide(&problem) {
        Answer::Unknown(reason) => assert_eq!(reason, "a number does not fit into 128 bits"),
        other => panic!("{other:?}"),
    }
}

/// Z3, without a time limit.
#[derive(Debug)]
struct Z3(PathBuf);

impl Z3 {
    fn say(&self, text: &str) -> std::io::Result<String> {
        let mut child = Command::new(&self.0)
            .arg("-in")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        // It reads to the end before it answers.
        child.stdin.take().unwrap().write_all(text.as_bytes())?;
        let said = child.wait_with_output()?.stdout;
        Ok(String::from_utf8_lossy(&said).trim().to_owned())
    }
}

impl Decide for Z3 {
    fn decide(&self, problem: &Problem) -> Answer {
        let text = smtlib::print(problem).unwrap();
        match self.say(&text).unwrap().as_str() {
            "sat" => Answer::Satisfiable(None),
            "unsat" => Answer::Unsatisfiable,
            other => panic!("{other}: {text}"),
        }
    }
}

/// Z3: where `ANABRANCH_Z3` says, or in PATH.
pub(crate) fn z3() -> Option<Solver> {
    let named = std::env::var_os("ANABRANCH_Z3").map(PathBuf::from);
    let z3 = Z3(named.clone().unwrap_or_else(|| PathBuf::from("z3")));
    match z3.say("(check-sat)\n") {
        Ok(said) if said == "sat" => Some(Solver::External(Arc::new(z3))),
        other if named.is_some() => panic!("{z3:?}: {other:?}"),
        other => {
            println!("not compared with Z3: {other:?}");
            None
        }
    }
}

#[test]
fn z3_agrees() {
    let Some(z3) = z3() else { return };
    let mut compared = 0;
    for seed in 0..problems() / 20 {
        for (sort, bounded) in [
            (Sort::Whole, None),
            (Sort::Whole, Some(50)),
            (Sort::Fraction, None),
        ] {
            let mut random = Random(SplitMix64::stream(seed, "z3", 0));
            let made = made_up(&mut random, sort, bounded);
            let text = || smtlib::print(&made.problem).unwrap();
            match (solver().decide(&made.problem), z3.decide(&made.problem)) {
                (Answer::Satisfiable(_), Answer::Satisfiable(_))
                | (Answer::Unsatisfiable, Answer::Unsatisfiable) => compared += 1,
                (Answer::Unknown(_), _) => {}
                (ours, theirs) => panic!("seed {seed}: {ours:?}, Z3 {theirs:?}: {}", text()),
            }
        }
    }
    assert!(compared > 100, "{compared}");
}

#[test]
fn a_problem_reads_as_smt_lib() {
    let mut problem = Problem::default();
    let x = Linear::variable(problem.variable("stock before", Sort::Whole));
    let y = Linear::variable(problem.variable("price", Sort::Fraction));
    let flag = problem.flag("later");
    let half = Linear::constant(Rational::new(-1, 2).unwrap());
    let mixed = Formula::compare(&x.plus(&y).unwrap(), Relation::Below, &half).unwrap();
    let whole = Formula::compare(
        &x.times(Rational::new(1, 2).unwrap()).unwrap(),
        Relation::AtMost,
        &half,
    );
    problem.assert(flag.implies(mixed));
    problem.assert(whole.unwrap().negated());
    assert_eq!(
        smtlib::print(&problem).unwrap(),
        "(set-logic QF_LIRA)\n\
         (declare-fun v0 () Int) ; stock before\n\
         (declare-fun v1 () Real) ; price\n\
         (declare-fun v2 () Bool) ; later\n\
         (assert (or (not v2) (< (+ (* 1.0 (to_real v0)) (* 1.0 v1) 0.0) (- (/ 1.0 2.0)))))\n\
         (assert (not (<= (+ (* 1 v0) 0) (- 1))))\n\
         (check-sat)\n"
    );
}
