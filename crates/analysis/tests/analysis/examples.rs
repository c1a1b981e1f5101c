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
    // §4.1: there is always an employee.
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
    // §5.1: departments are closed while employees are hired into them.
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

#[test]
fn voter_counts_the_votes_of_a_telephone() {
    let plan = Application::example("voter").plan();
    expect(&plan, "vote", "two_votes_a_phone", No, "lt-increment");
    expect(&plan, "vote", "votes_pkey", Yes, "unique-generated");
    expect(
        &plan,
        "vote",
        "votes_contestant_number_fkey",
        Yes,
        "fk-insert",
    );
}

#[test]
fn tatp_is_free_but_for_a_key_that_is_chosen() {
    let plan = Application::example("tatp").plan();
    expect(
        &plan,
        "insert_call_forwarding",
        "call_forwarding_pkey",
        No,
        "unique-chosen",
    );
    let ordered: Vec<&str> = plan
        .entries
        .iter()
        .filter(|e| e.class != Free)
        .map(|e| e.name.as_str())
        .collect();
    assert_eq!(ordered, ["insert_call_forwarding"]);
}

#[test]
fn seats_orders_reservations_as_the_paper_says() {
    let plan = Application::example("seats").plan();
    expect(
        &plan,
        "new_reservation",
        "reservation_r_f_id_r_seat_key",
        No,
        "unique-chosen",
    );
    expect(
        &plan,
        "new_reservation",
        "flight_f_seats_left_check",
        No,
        "gt-decrement",
    );
    expect(&plan, "new_reservation", "seats_left", Yes, "mv-update");
    expect(
        &plan,
        "new_reservation",
        "reservation_r_f_id_fkey",
        Yes,
        "fk-insert",
    );
    assert_eq!(entry(&plan, "pay_in").class, Free);
    assert_eq!(entry(&plan, "find_open_seats").class, Free);
}

#[test]
fn auctionmark_orders_purchases_as_the_paper_says() {
    let plan = Application::example("auctionmark").plan();
    expect(
        &plan,
        "new_purchase",
        "item_purchase_pkey",
        No,
        "unique-chosen",
    );
    expect(&plan, "new_bid", "bids_are_counted", Yes, "mv-update");
    assert_eq!(entry(&plan, "new_bid").class, Free);
}

#[test]
fn twitter_epinions_and_ycsb_need_nothing() {
    for name in ["twitter", "epinions", "ycsb"] {
        let plan = Application::example(name).plan();
        assert!(!plan.needs_coordination(), "{name}: {:#?}", plan.entries);
        assert!(plan.entries.len() > 1, "{name}");
    }
}

#[test]
fn the_report_says_by_which_array_ycsb_is_routed() {
    let ycsb = Application::example("ycsb");
    let text = anabranch_analysis::report::text::render(&ycsb.plan(), &ycsb.catalog, &ycsb.types);
    for line in [
        "○ get_all      free   routed by most of p_keys, read-only",
        "○ put_all      free   routed by most of p_keys",
        "○ read_item    free   routed by p_key, read-only",
        "○ scan_items   free   any node, read-only",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
}

#[test]
fn wikipedia_orders_its_watch_lists_alone() {
    let plan = Application::example("wikipedia").plan();
    expect(
        &plan,
        "add_watch_list",
        "watchlist_pkey",
        No,
        "unique-chosen",
    );
    assert_eq!(entry(&plan, "update_page").class, Free);
}

#[test]
fn no_transaction_of_tpcc_has_to_evaluate_a_condition() {
    // All twelve are kept by the statements, or by the author's declaration: evaluating one would read whole
    // warehouses.
    for entry in &Application::example("tpcc").plan().entries {
        assert!(
            entry.checks.is_empty(),
            "{}: {:?}",
            entry.name,
            entry.checks
        );
    }
}

#[test]
fn transfers_between_branches_keep_the_funds() {
    let plan = Application::example("bank").plan();
    expect(&plan, "transfer", "funds_add_up", Yes, "mv-update");
    assert!(entry(&plan, "transfer").checks.is_empty());
}

#[test]
fn a_blind_dismissal_is_checked() {
    let plan = Application::example("payroll").plan();
    let name = |of: usize| plan.invariants[of].name.as_str();
    for of in &plan.entries {
        let checks: Vec<&str> = of.checks.iter().map(|c| name(c.invariant)).collect();
        let expected: &[&str] = match of.name.as_str() {
            "dismiss" => &["somebody_is_employed"],
            _ => &[],
        };
        assert_eq!(checks, expected, "{}", of.name);
        // The amount taken from a total is the deleted row's; the caller's amount may have more decimals than
        // salaries and totals, and be rounded in each.
        let declared_by_author: Vec<&str> =
            of.declared_by_author.iter().map(|i| name(*i)).collect();
        let expected: &[&str] = match of.name.as_str() {
            "hire" | "hire_as" | "raise_salary" | "cut_salary" => &["totals_add_up"],
            _ => &[],
        };
        assert_eq!(declared_by_author, expected, "{}", of.name);
    }
}
