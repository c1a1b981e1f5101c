//! What no rule decides, asked of a solver: whether numbers and flags can satisfy some conditions.
//!
//! A [`Problem`] holds linear conditions on whole numbers and fractions, and flags, joined by and, or, not. It is
//! decided by the built-in procedure, or by whoever else is given ([`Decide`]): a program that reads SMT-LIB 2
//! ([`smtlib`]), say. *Unsatisfiable* is a proof: no values at all satisfy it. *Satisfiable* comes with a model
//! that has been put in and found right, where the built-in procedure says it. Whatever else happens (a number that
//! does not fit into 128 bits, too many steps, a program that does not answer) is *unknown*.
//!
//! The procedure is the usual one (DPLL(T)): clauses are learnt from conflicts, and a simplex over exact
//! fractions decides which bounds go together. Problems here are small, tens of variables; nothing is done
//! for large ones. Tests hold it against a naive twin that tries every value, and against Z3.

mod formula;
mod rational;
mod search;
mod simplex;
pub mod smtlib;

use std::fmt;
use std::sync::Arc;

pub use formula::{Assigned, Formula, Linear, Problem, Relation, Sort, Variable};
pub use rational::{Overflow, Rational};

/// What is known of a problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Some values satisfy it: these, where they are told.
    Satisfiable(Option<Vec<Assigned>>),
    /// None do.
    Unsatisfiable,
    /// It is not known, for this reason.
    Unknown(String),
}

/// How hard the built-in procedure tries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Conflicts, after which it gives up.
    pub conflicts_max: u32,
    /// Times that it splits the range of a whole number, for each choice of conditions.
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

/// Someone who decides problems.
pub trait Decide: fmt::Debug {
    /// What is known of a problem. A wrong *unsatisfiable* makes unsafe what is called proved.
    fn decide(&self, problem: &Problem) -> Answer;
}

/// Who decides.
#[derive(Clone, Debug)]
pub enum Solver {
    /// The built-in procedure.
    Builtin(Effort),
    /// Somebody else.
    Other(Arc<dyn Decide>),
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
            Solver::Other(other) => other.decide(problem),
        }
    }
}
