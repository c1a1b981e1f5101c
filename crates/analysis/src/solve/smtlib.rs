//! Problems as SMT-LIB 2, for other solvers and for people.

use std::fmt::Write;

use super::formula::{Formula, Linear, Problem, Relation, Sort, Variable};
use super::rational::{Overflow, Rational};

/// The problem as a script that ends with `(check-sat)`. Comments have the names of the variables.
///
/// # Errors
/// If a factor overflows.
pub fn print(problem: &Problem) -> Result<String, Overflow> {
    let sorts = || problem.variables().iter().map(|(_, sort)| *sort);
    let logic = match (
        sorts().any(|sort| sort == Sort::Whole),
        sorts().any(|sort| sort == Sort::Fraction),
    ) {
        (_, false) => "QF_LIA",
        (false, true) => "QF_LRA",
        (true, true) => "QF_LIRA",
    };
    let mut out = format!("(set-logic {logic})\n");
    for (place, (name, sort)) in problem.variables().iter().enumerate() {
        let sort = match sort {
            Sort::Flag => "Bool",
            Sort::Whole => "Int",
            Sort::Fraction => "Real",
        };
        let name: String = name.chars().filter(|c| !c.is_control()).collect();
        let _ = writeln!(out, "(declare-fun v{place} () {sort}) ; {name}");
    }
    for formula in problem.asserted() {
        out.push_str("(assert ");
        write_formula(&mut out, problem, formula)?;
        out.push_str(")\n");
    }
    out.push_str("(check-sat)\n");
    Ok(out)
}

fn write_formula(out: &mut String, problem: &Problem, formula: &Formula) -> Result<(), Overflow> {
    match formula {
        Formula::Constant(truth) => {
            let _ = write!(out, "{truth}");
        }
        Formula::Flag(flag) => {
            let _ = write!(out, "v{}", flag.index());
        }
        Formula::Not(inner) => {
            out.push_str("(not ");
            write_formula(out, problem, inner)?;
            out.push(')');
        }
        Formula::And(parts) => write_several(out, problem, "and", parts)?,
        Formula::Or(parts) => write_several(out, problem, "or", parts)?,
        Formula::Compare(linear, relation) => {
            let operator = match relation {
                Relation::Equal => "=",
                Relation::AtMost => "<=",
                Relation::Below => "<",
            };
            let _ = write!(out, "({operator} ");
            write_sum(out, problem, linear)?;
            out.push(')');
        }
    }
    Ok(())
}

fn write_several(
    out: &mut String,
    problem: &Problem,
    operator: &str,
    parts: &[Formula],
) -> Result<(), Overflow> {
    if parts.is_empty() {
        let _ = write!(out, "{}", operator == "and");
        return Ok(());
    }
    let _ = write!(out, "({operator}");
    for part in parts {
        out.push(' ');
        write_formula(out, problem, part)?;
    }
    out.push(')');
    Ok(())
}

/// Writes the sum and its comparison. Factors of whole numbers are made whole.
fn write_sum(out: &mut String, problem: &Problem, linear: &Linear) -> Result<(), Overflow> {
    let is_whole = |(variable, _): &(Variable, Rational)| problem.sort(*variable) == Sort::Whole;
    let whole = linear.terms().iter().all(is_whole);
    let mut scale = Rational::ONE;
    if whole {
        let factors = linear.terms().iter().map(|(_, factor)| *factor);
        for factor in factors.chain([linear.offset()]) {
            let scaled = factor.times(scale)?;
            scale = scale.times(Rational::whole(scaled.denominator()))?;
        }
    }
    out.push_str("(+");
    for (variable, factor) in linear.terms() {
        out.push_str(" (* ");
        write_number(out, factor.times(scale)?, whole);
        let _ = match !whole && problem.sort(*variable) == Sort::Whole {
            true => write!(out, " (to_real v{}))", variable.index()),
            false => write!(out, " v{})", variable.index()),
        };
    }
    let zero = if whole { "0" } else { "0.0" };
    let _ = write!(out, " {zero}) ");
    write_number(out, linear.offset().times(scale)?.negated(), whole);
    Ok(())
}

fn write_number(out: &mut String, number: Rational, whole: bool) {
    let (numerator, denominator) = (number.numerator().unsigned_abs(), number.denominator());
    let text = match (whole, denominator) {
        (true, _) => numerator.to_string(),
        (false, 1) => format!("{numerator}.0"),
        (false, _) => format!("(/ {numerator}.0 {denominator}.0)"),
    };
    let _ = match number.is_negative() {
        true => write!(out, "(- {text})"),
        false => write!(out, "{text}"),
    };
}
