//! A solver for what no rule decides: whether numbers and flags can satisfy some conditions.
//!
//! A [`Problem`] has linear conditions on whole and rational numbers, and flags, joined by and, or, not. The
//! built-in procedure decides it, or another implementation of [`Decide`], such as a program that reads SMT-LIB 2
//! ([`smtlib`]). *Unsatisfiable* is a proof: no values satisfy it. *Satisfiable* comes with a model; the built-in
//! procedure has verified its models by evaluation. Any other outcome (a number that does not fit into 128 bits,
//! too many steps, a program that does not answer) is *unknown*.
//!
//! The procedure is DPLL(T): it learns clauses from conflicts, and a simplex over exact fractions decides which
//! bounds are compatible. Problems here are small, with tens of variables; nothing is optimised for large ones.
//! Tests compare it with a naive twin that tries every value, and with Z3.

mod formula;
mod rational;
mod search;
mod simplex;
pub mod smtlib;

use std::fmt;
use std::sync::Arc;

pub use formula::{Assigned, Formula, Linear, Problem, Relation, Sort, Variable};
pub use rational::{Overflow, Rational};

/// The answer to a problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Some values satisfy it: these, if the solver returns them.
    Satisfiable(Option<Vec<Assigned>>),
    /// No values satisfy it.
    Unsatisfiable,
    /// Not known, for this reason.
    Unknown(String),
}

/// Limits of the built-in procedure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// The most conflicts before it gives up.
    pub conflicts_max: u32,
    /// The most splits of a whole number's range, for each choice of conditions.
    pub splits_max: u32,
}

impl Default for Effort {
    fn default() -> Effort {
        Effort {
            conflicts_max: 20_000,
            splits_max: 200,
        }
    }
}

/// A procedure that decides problems.
pub trait Decide: fmt::Debug + Send + Sync {
    /// Decides a problem. A wrong *unsatisfiable* makes a proved verdict unsafe.
    fn decide(&self, problem: &Problem) -> Answer;
}

/// The solver that an analysis uses.
#[derive(Clone, Debug)]
pub enum Solver {
    /// The built-in procedure.
    Builtin(Effort),
    /// Another procedure.
    External(Arc<dyn Decide>),
}

impl Default for Solver {
    fn default() -> Solver {
        Solver::Builtin(Effort::default())
    }
}

impl Solver {
    /// Decides a problem.
    pub fn decide(&self, problem: &Problem) -> Answer {
        match self {
            Solver::Builtin(effort) => search::decide(problem, *effort),
            Solver::External(other) => other.decide(problem),
        }
    }
}
