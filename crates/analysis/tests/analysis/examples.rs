//! The other examples, from their SQL.

use anabranch_analysis::plan::Confluence::{No, Yes};
use anabranch_analysis::plan::CoordinationClass::{Free, Global};

use crate::support::{Application, entry, expect, try_verdict};

#[test]
fn the_payroll_of_the_paper() {
    let plan = Application::example("payroll").plan();
    // §2: unique ids that are chosen, and §5.1: ids that the database chooses.
    expect(&plan, "hire_as", "employees_pkey", No, "unique-chosen");
    expect(
        &plan,
        "open_department",
        "departments_pkey",
        Yes,
        "unique-generated",
    );
    expect(&plan, "dismiss", "employees_pkey", Yes, "unique-delete");
    // §4.1: somebody is always employed.
    expect(
        &plan,
        "dismiss",
        "somebody_is_employed",
        No,
        "nonempty-delete",
    );
    expect(
        &plan,
        "hire",
        "somebody_is_employed",
        Yes,
        "nonempty-insert",
    );
    // §5.1: departments are closed while somebody is hired into them.
    expect(
        &plan,
        "close_department",
        "employees_department_id_fkey",
        No,
        "fk-delete",
    );
    // §5.2: salaries stay above zero under raises, not under cuts.
    expect(
        &plan,
        "raise_salary",
        "employees_salary_check",
        Yes,
        "gt-increment",
    );
    expect(
        &plan,
        "cut_salary",
        "employees_salary_check",
        No,
        "gt-decrement",
    );
    expect(&plan, "hire", "totals_add_up", Yes, "mv-update");
    assert_eq!(entry(&plan, "open_department").class, Free);
    assert_eq!(entry(&plan, "department_cost").class, Free);
}

#[test]
fn small_bank_is_ordered_where_it_withdraws() {
    let plan = Application::example("smallbank").plan();
    expect(
        &plan,
        "transact_savings",
        "savings_balance_check",
        No,
        "gt-decrement",
    );
    expect(
        &plan,
        "amalgamate",
        "savings_balance_check",
        No,
        "gt-decrement",
    );
    assert!(try_verdict(&plan, "total_balance", "savings_balance_check").is_none());
    assert_eq!(entry(&plan, "total_balance").class, Free);
    assert_eq!(entry(&plan, "amalgamate").class, Global);
}
