//! What is asked: conditions on numbers and flags, by which a [`Problem`] is put.

use super::rational::{Overflow, Rational};

/// What a variable stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// True or false.
    Flag,
    /// A whole number.
    Whole,
    /// A fraction.
    Fraction,
}

/// A variable of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Variable(pub(super) u32);

impl Variable {
    /// Its place among the problem's variables.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A sum of variables, each with a factor, and a constant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Linear {
    /// In order of variables, each once; no factor is 0.
    terms: Vec<(Variable, Rational)>,
    constant: Rational,
}

impl Linear {
    /// A number.
    pub fn constant(number: Rational) -> Linear {
        Linear {
            terms: Vec::new(),
            constant: number,
        }
    }

    /// A variable.
    pub fn variable(variable: Variable) -> Linear {
        Linear {
            terms: vec![(variable, Rational::ONE)],
            constant: Rational::ZERO,
        }
    }

    /// The variables with their factors.
    pub fn terms(&self) -> &[(Variable, Rational)] {
        &self.terms
    }

    /// What it comes to in a model; nothing where that has a flag in the place of a number.
    ///
    /// # Errors
    /// Where a number on the way does not fit.
    pub fn value(&self, model: &[Assigned]) -> Result<Option<Rational>, Overflow> {
        let mut sum = self.constant;
        for (variable, factor) in &self.terms {
            let Some(Assigned::Number(number)) = model.get(variable.index()) else {
                return Ok(None);
            };
            sum = sum.plus(number.times(*factor)?)?;
        }
        Ok(Some(sum))
    }

    /// What is added to them.
    pub fn offset(&self) -> Rational {
        self.constant
    }

    /// The number that it is, where it has no variable.
    pub fn as_number(&self) -> Option<Rational> {
        self.terms.is_empty().then_some(self.constant)
    }

    /// The sum.
    ///
    /// # Errors
    /// Where a factor does not fit.
    pub fn plus(&self, other: &Linear) -> Result<Linear, Overflow> {
        let mut terms = self.terms.clone();
        for (variable, factor) in &other.terms {
            match terms.binary_search_by_key(variable, |(v, _)| *v) {
                Ok(at) => {
                    terms[at].1 = terms[at].1.plus(*factor)?;
                    if terms[at].1.is_zero() {
                        terms.remove(at);
                    }
                }
                Err(at) => terms.insert(at, (*variable, *factor)),
            }
        }
        Ok(Linear {
            terms,
            constant: self.constant.plus(other.constant)?,
        })
    }

    /// The difference.
    ///
    /// # Errors
    /// Where a factor does not fit.
    pub fn minus(&self, other: &Linear) -> Result<Linear, Overflow> {
        self.plus(&other.times(Rational::whole(-1))?)
    }

    /// The product with a number.
    ///
    /// # Errors
    /// Where a factor does not fit.
    pub fn times(&self, factor: Rational) -> Result<Linear, Overflow> {
        if factor.is_zero() {
            return Ok(Linear::constant(Rational::ZERO));
        }
        let mut terms = self.terms.clone();
        for (_, of) in &mut terms {
            *of = of.times(factor)?;
        }
        Ok(Linear {
            terms,
            constant: self.constant.times(factor)?,
        })
    }
}

/// How a sum compares with 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// `= 0`
    Equal,
    /// `<= 0`
    AtMost,
    /// `< 0`
    Below,
}

/// A condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Formula {
    /// Always so, or never.
    Constant(bool),
    /// A flag is set.
    Flag(Variable),
    /// A sum compares with 0.
    Compare(Linear, Relation),
    /// It is not so.
    Not(Box<Formula>),
    /// All of these.
    And(Vec<Formula>),
    /// One of these at least.
    Or(Vec<Formula>),
}

impl Formula {
    /// Whether it is true in a model of its problem.
    ///
    /// # Errors
    /// Where a number on the way does not fit.
    pub fn is_true(&self, model: &[Assigned]) -> Result<bool, Overflow> {
        evaluate(self, model)
    }

    /// Not this.
    pub fn negated(self) -> Formula {
        match self {
            Formula::Constant(truth) => Formula::Constant(!truth),
            Formula::Not(inner) => *inner,
            other => Formula::Not(Box::new(other)),
        }
    }

    /// All of these; what is always so is left out.
    pub fn all(parts: impl IntoIterator<Item = Formula>) -> Formula {
        let mut kept = Vec::new();
        for part in parts {
            match part {
                Formula::Constant(true) => {}
                Formula::Constant(false) => return Formula::Constant(false),
                other => kept.push(other),
            }
        }
        match kept.len() {
            0 => Formula::Constant(true),
            1 => kept.remove(0),
            _ => Formula::And(kept),
        }
    }

    /// One of these at least.
    pub fn any(parts: impl IntoIterator<Item = Formula>) -> Formula {
        let negated = parts.into_iter().map(Formula::negated);
        match Formula::all(negated) {
            Formula::And(parts) => Formula::Or(parts.into_iter().map(Formula::negated).collect()),
            other => other.negated(),
        }
    }

    /// The second wherever the first.
    pub fn implies(self, other: Formula) -> Formula {
        Formula::any([self.negated(), other])
    }

    /// Both or neither.
    pub fn equals(self, other: Formula) -> Formula {
        Formula::all([self.clone().implies(other.clone()), other.implies(self)])
    }

    /// `left = right`.
    ///
    /// # Errors
    /// Where a factor does not fit.
    pub fn equal(left: &Linear, right: &Linear) -> Result<Formula, Overflow> {
        Formula::compare(left, Relation::Equal, right)
    }

    /// `left <= right`, or as the relation says.
    ///
    /// # Errors
    /// Where a factor does not fit.
    pub fn compare(left: &Linear, relation: Relation, right: &Linear) -> Result<Formula, Overflow> {
        let difference = left.minus(right)?;
        Ok(match difference.as_number() {
            Some(number) => Formula::Constant(holds(number, relation)),
            None => Formula::Compare(difference, relation),
        })
    }
}

fn holds(number: Rational, relation: Relation) -> bool {
    match relation {
        Relation::Equal => number.is_zero(),
        Relation::AtMost => !number.is_positive(),
        Relation::Below => number.is_negative(),
    }
}

/// What a variable is in a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Assigned {
    /// Of a flag.
    Flag(bool),
    /// Of a number.
    Number(Rational),
}

/// Variables, and what has to hold of them together.
#[derive(Clone, Debug, Default)]
pub struct Problem {
    variables: Vec<(String, Sort)>,
    asserted: Vec<Formula>,
}

impl Problem {
    /// A new variable. Names are for those who read the problem.
    pub fn variable(&mut self, name: impl Into<String>, sort: Sort) -> Variable {
        self.variables.push((name.into(), sort));
        Variable(self.variables.len() as u32 - 1)
    }

    /// A new flag.
    pub fn flag(&mut self, name: impl Into<String>) -> Formula {
        Formula::Flag(self.variable(name, Sort::Flag))
    }

    /// Demands this besides.
    pub fn assert(&mut self, formula: Formula) {
        match formula {
            Formula::Constant(true) => {}
            Formula::And(parts) => parts.into_iter().for_each(|part| self.assert(part)),
            other => self.asserted.push(other),
        }
    }

    /// The variables: their names and sorts.
    pub fn variables(&self) -> &[(String, Sort)] {
        &self.variables
    }

    /// What has to hold.
    pub fn asserted(&self) -> &[Formula] {
        &self.asserted
    }

    /// What the variable stands for.
    pub fn sort(&self, variable: Variable) -> Sort {
        self.variables[variable.index()].1
    }

    /// Whether a model satisfies all that has to hold: each number of its sort, each formula true.
    ///
    /// # Errors
    /// Where a number on the way does not fit.
    pub fn is_satisfied(&self, model: &[Assigned]) -> Result<bool, Overflow> {
        let fits = |(assigned, (_, sort)): (&Assigned, &(String, Sort))| match (assigned, sort) {
            (Assigned::Flag(_), Sort::Flag) | (Assigned::Number(_), Sort::Fraction) => true,
            (Assigned::Number(number), Sort::Whole) => number.is_whole(),
            _ => false,
        };
        if model.len() != self.variables.len() || !model.iter().zip(&self.variables).all(fits) {
            return Ok(false);
        }
        for formula in &self.asserted {
            if !formula.is_true(model)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn evaluate(formula: &Formula, model: &[Assigned]) -> Result<bool, Overflow> {
    Ok(match formula {
        Formula::Constant(truth) => *truth,
        Formula::Flag(flag) => model[flag.index()] == Assigned::Flag(true),
        Formula::Compare(linear, relation) => match linear.value(model)? {
            Some(sum) => holds(sum, *relation),
            None => false,
        },
        Formula::Not(inner) => !evaluate(inner, model)?,
        Formula::And(parts) => {
            for part in parts {
                if !evaluate(part, model)? {
                    return Ok(false);
                }
            }
            true
        }
        Formula::Or(parts) => {
            for part in parts {
                if evaluate(part, model)? {
                    return Ok(true);
                }
            }
            false
        }
    })
}
