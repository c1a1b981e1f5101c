//! Questions to a solver: conditions on numbers and flags, collected in a [`Problem`].

use super::rational::{Overflow, Rational};

/// The sort of a variable.
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
    /// Its index among the problem's variables.
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
    /// A constant sum.
    pub fn constant(number: Rational) -> Linear {
        Linear {
            terms: Vec::new(),
            constant: number,
        }
    }

    /// The sum of one variable.
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

    /// The value in a model; `None` if the model has a flag in the place of a number.
    ///
    /// # Errors
    /// If an intermediate number overflows.
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

    /// The constant that is added to the variables.
    pub fn offset(&self) -> Rational {
        self.constant
    }

    /// The number, if the sum has no variable.
    pub fn as_number(&self) -> Option<Rational> {
        self.terms.is_empty().then_some(self.constant)
    }

    /// The sum.
    ///
    /// # Errors
    /// If a factor overflows.
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
    /// If a factor overflows.
    pub fn minus(&self, other: &Linear) -> Result<Linear, Overflow> {
        self.plus(&other.times(Rational::whole(-1))?)
    }

    /// The product with a number.
    ///
    /// # Errors
    /// If a factor overflows.
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
    /// Always true, or always false.
    Constant(bool),
    /// A flag is set.
    Flag(Variable),
    /// A sum compares with 0.
    Compare(Linear, Relation),
    /// The negation.
    Not(Box<Formula>),
    /// All of these.
    And(Vec<Formula>),
    /// At least one of these.
    Or(Vec<Formula>),
}

impl Formula {
    /// Whether the formula is true in a model of its problem.
    ///
    /// # Errors
    /// If an intermediate number overflows.
    pub fn is_true(&self, model: &[Assigned]) -> Result<bool, Overflow> {
        evaluate(self, model)
    }

    /// The negation.
    pub fn negated(self) -> Formula {
        match self {
            Formula::Constant(truth) => Formula::Constant(!truth),
            Formula::Not(inner) => *inner,
            other => Formula::Not(Box::new(other)),
        }
    }

    /// The conjunction, without parts that are always true.
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

    /// The disjunction.
    pub fn any(parts: impl IntoIterator<Item = Formula>) -> Formula {
        let negated = parts.into_iter().map(Formula::negated);
        match Formula::all(negated) {
            Formula::And(parts) => Formula::Or(parts.into_iter().map(Formula::negated).collect()),
            other => other.negated(),
        }
    }

    /// The implication.
    pub fn implies(self, other: Formula) -> Formula {
        Formula::any([self.negated(), other])
    }

    /// The equivalence.
    pub fn equals(self, other: Formula) -> Formula {
        Formula::all([self.clone().implies(other.clone()), other.implies(self)])
    }

    /// `left = right`.
    ///
    /// # Errors
    /// If a factor overflows.
    pub fn equal(left: &Linear, right: &Linear) -> Result<Formula, Overflow> {
        Formula::compare(left, Relation::Equal, right)
    }

    /// `left <= right`, or as the relation says.
    ///
    /// # Errors
    /// If a factor overflows.
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

/// The value of a variable in a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Assigned {
    /// A flag's.
    Flag(bool),
    /// A number's.
    Number(Rational),
}

/// Variables, and the formulas that they must satisfy.
#[derive(Clone, Debug, Default)]
pub struct Problem {
    variables: Vec<(String, Sort)>,
    asserted: Vec<Formula>,
}

impl Problem {
    /// Adds a variable. Names are for people.
    pub fn variable(&mut self, name: impl Into<String>, sort: Sort) -> Variable {
        self.variables.push((name.into(), sort));
        Variable(self.variables.len() as u32 - 1)
    }

    /// Adds a flag.
    pub fn flag(&mut self, name: impl Into<String>) -> Formula {
        Formula::Flag(self.variable(name, Sort::Flag))
    }

    /// Adds a formula that must hold.
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

    /// The formulas that must hold.
    pub fn asserted(&self) -> &[Formula] {
        &self.asserted
    }

    /// The sort of a variable.
    pub fn sort(&self, variable: Variable) -> Sort {
        self.variables[variable.index()].1
    }

    /// Whether a model satisfies the problem: each number is of its sort, each formula is true.
    ///
    /// # Errors
    /// If an intermediate number overflows.
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
