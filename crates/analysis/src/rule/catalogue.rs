//! The catalogue of rules.

/// A rule that decides confluence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Its code, which reports name and which never changes.
    pub code: &'static str,
    /// The verdict that it gives: `yes`, `no` or `unknown`.
    pub verdict: &'static str,
    /// Its title.
    pub title: &'static str,
    /// Its source: coordination-avoidance.txt unless stated otherwise.
    pub source: &'static str,
    /// Its proof, in a sentence.
    pub proof: &'static str,
    /// What a developer can do about it; empty where nothing needs to be done.
    pub remedy: &'static str,
}

/// The rule with this code.
pub fn rule(code: &str) -> Option<&'static Rule> {
    RULES.iter().find(|r| r.code == code)
}

macro_rules! rules {
    ($($code:literal, $verdict:literal, $title:literal, $source:literal, $proof:literal, $remedy:literal;)*) => {
        /// Every rule, in the order of the paper's Table 2 and then of Table 3.
        pub const RULES: &[Rule] = &[$(Rule {
            code: $code,
            verdict: $verdict,
            title: $title,
            source: $source,
            proof: $proof,
            remedy: $remedy,
        }),*];
    };
}

rules! {
    "eq-any", "yes", "a test of one column, which is only assigned", "Table 2, rows 1 and 2 (claims 1, 2)",
        "A merged row that failed would hold a value that one side held and had checked.", "";
    "eq-counter", "no", "a test of one column, to which amounts are added", "Table 2, row 2, for counters (§5.2)",
        "Two amounts that each lead to an allowed value may add up to a forbidden one.",
        "Assign the value instead, or state the test as a bound.";
    "null-computed", "unknown", "NOT NULL: computed from the row", "§5.3",
        "What a function makes of a row that another has changed may be NULL.",
        "Write it so that it is never NULL: with coalesce(), or an ELSE.";
    "unique-chosen", "no", "unique: the key is chosen", "Table 2, row 3 (claim 3)",
        "{Stan:5} and {Mary:5} are each valid; together they are not.",
        "Let the database generate the key (uuid, identity).";
    "unique-generated", "yes", "unique: the key is generated", "Table 2, row 4 (claim 4)",
        "Each replica generates from its own part of the name space.", "";
    "unique-delete", "yes", "unique: rows are removed", "§5.1",
        "Removing rows cannot introduce duplicates.", "";
    "unique-derived", "yes", "unique: the key holds the key of a row inserted with it", "§5.1, by composition",
        "Two such keys can be equal only if the keys inserted with them are.", "";
    "unique-sequential", "yes", "unique: the key holds a number that a guard gives once", "§6.1",
        "Two calls never get the same number of one counter, for the counter's guard orders them.", "";
    "sequential-insert", "no", "ids that follow one another: insert", "Table 2, row 5 (claim 5)",
        "Two replicas that append one row each both take the next id.",
        "Take the number from a counter row by UPDATE … RETURNING, carried into the INSERT only: then \
         its owner decides it at commit. Or use generated ids.";
    "sequential-delete", "no", "ids that follow one another: take away", "Table 3, rows 2 and 3",
        "Two replicas that each take the lowest id take the same.",
        "Route by the columns that tell groups apart, so that the guard stays on one partition.";
    "sequential-change", "no", "ids that follow one another: renumber", "Table 2, row 5",
        "An id changed here and taken there leaves a gap or a duplicate.", "Do not update ids.";
    "extremum-insert", "no", "a remembered greatest or least value: insert", "§5.3 (unrecognised combinations are flagged)",
        "Each replica remembers its own extreme; a register keeps one of the two.",
        "Compute the extreme when it is read.";
    "extremum-update", "no", "a remembered greatest or least value: update", "§5.3",
        "What is remembered and what it is remembered of may be merged from different sides.",
        "Compute the extreme when it is read.";
    "fk-insert", "yes", "foreign key: insert", "Table 2, row 6 (claim 6)",
        "A dangling reference would need its target to disappear in the merge, which removes nothing that nobody deleted.", "";
    "fk-delete", "no", "foreign key: delete", "Table 2, row 7 (claim 7)",
        "A user may be added to a department while it is deleted elsewhere.",
        "Mark the row as deleted instead, or stop making references to it first.";
    "fk-cascade", "yes or no", "foreign key: cascading delete", "Table 2, row 8 (claim 8)",
        "Confluent exactly if the merge cascades too: what was inserted beside the deletion must go with it. \
         Where the merge does not, the verdict is no.",
        "Mark the row as deleted instead.";
    "fk-unopposed", "yes", "foreign key: delete, with nobody to refer", "Table 2, row 7, closed world",
        "No transaction type makes a reference, so that none can be made beside the deletion.", "";
    "index-update", "yes", "secondary index: update", "Table 2, row 9 (claim 9)",
        "An entry is a function of its row and changes with it.", "";
    "mv-update", "yes", "materialized view, sums that agree: update", "Table 2, row 10 (claim 10)",
        "If each transaction adds amounts that cancel out in the equation, so do any two sets of them.", "";
    "mv-overwrite", "no", "sums that agree: a side is overwritten", "Table 2, row 10, with §5.2's merge",
        "The merge keeps one of two written values, but both sides' amounts elsewhere.",
        "Write it as an increment: SET total = total + amount.";
    "mv-transition", "no", "sums that agree: a row is moved into or out of a sum", "Table 2, row 10, by effects (§4.1)",
        "Two transactions move the same row once, but each adds what goes with it.",
        "Let both claim the row first, for example by deleting a row of a queue.";
    "mv-founding", "no", "sums that agree: a group's row is inserted behind its rows", "Table 2, row 10, by effects (§4.1)",
        "What comes into a group before the group's row is there is counted by nobody.",
        "Declare the foreign key, or let the database generate the group's key.";
    "mv-unmaintained", "unknown", "sums that agree: one side is changed alone", "§3, validity of each transaction",
        "A transaction that breaks the equation when it runs alone breaks it however it is ordered.",
        "Change the other side in the same transaction, or the assertion.";
    "gt-increment", "yes", "above a bound: increment", "Table 2, row 11 (claim 11)",
        "The sum of steps away from a bound is a step away from it.", "";
    "lt-increment", "no", "below a bound: increment", "Table 2, row 12 (claim 12)",
        "Two steps that each respect the bound may break it together.",
        "Split what is left among sites (escrow), or drop the bound.";
    "gt-decrement", "no", "above a bound: decrement", "Table 2, row 13 (claim 13)",
        "Two withdrawals that each leave enough may overdraw together.",
        "Split what is left among sites (escrow), or drop the bound. Where the amount's sign is not \
         known, declare it.";
    "lt-decrement", "yes", "below a bound: decrement", "Table 2, row 14 (claim 14)",
        "The sum of steps away from a bound is a step away from it.", "";
    "threshold-assign", "yes", "beyond a bound: assign", "§5.2 (claims 11 to 14)",
        "The merge keeps one of the assigned values, and each was checked.", "";
    "bound-computed", "unknown", "beyond a bound: computed from the row", "§5.3",
        "What a function makes of a row that another has changed is not known.",
        "Write it as an increment or an assignment.";
    "contains-any", "yes", "a certain row or value must (not) be there", "Table 2, rows 15 and 16 (claims 15, 16)",
        "No replica may take it away (or put it there), so neither does their merge.", "";
    "size-mutation", "no", "a fixed number of rows", "Table 2, row 17 (claim 17)",
        "Each replica may exchange one row for another; the merge has both new ones.",
        "Update rows in place.";
    "row-together", "yes", "a test of several columns, assigned together", "Table 2, rows 1 and 2, by columns",
        "The merge takes all of them from the transaction with the highest timestamp. Columns that nobody updates count where rows may come again under their key.", "";
    "row-mixed", "no", "a test or a reference of several columns, written apart", "§5.2's merge, column by column",
        "The merge may take one column from one side and the other from the other.",
        "Assign all of the columns in each UPDATE that assigns one.";
    "solver", "yes", "a condition on each row that no rule decides: proved", "Definition 6 (§4.1), by a solver",
        "Two replicas that any calls have led away from any valid row, merged as the columns are: the solver \
         shows that no such merge violates it.", "";
    "nonempty-delete", "no", "at least one row: delete", "§4.1's payroll example",
        "Two replicas may each remove the row that the other counts on.",
        "Keep one certain row, named in the assertion by its key.";
    "nonempty-insert", "yes", "at least one row: insert", "§4.1",
        "One more row does no harm.", "";
    "iff-one-way", "yes", "if and only if: both sides turn once, together", "Table 3, rows 5 and 7",
        "Whichever side turned something, turned all of it, and nothing turns it back.", "";
    "iff-two-way", "no", "if and only if: sides turn back and forth", "§5.3",
        "The merge may keep one transaction's turn of one side and another's of the other.",
        "Make the change one-way: insert a new row rather than turn an old one back.";
    "iff-unmaintained", "unknown", "if and only if: one side turns alone", "§3, validity of each transaction",
        "A transaction that breaks the equivalence when it runs alone breaks it however it is ordered.",
        "Turn the other side in the same transaction, or change the assertion.";
    "commutative-update", "yes", "isolation: increments", "§5.2, counters",
        "Amounts add up in any order; none is lost.", "";
    "owner-order", "yes", "isolation: a function of the row, at its one owner", "§6.1, deferred to commit",
        "Applied once by one owner, after what came before it: no update is lost.", "";
    "blind-write", "yes", "isolation: what is written does not depend on what was there", "§3, versions",
        "There is nothing that a concurrent write could have made stale.", "";
    "append-behind", "yes", "isolation: appended behind the least number", "§6.1, Delivery beside New-Order",
        "A number greater than the least one does not change which is least.", "";
    "lost-update", "no", "isolation: written from what was read", "§5.2, the Lost Update anomaly",
        "Of two values computed from the same old one, the merge keeps one.",
        "Compute it in the UPDATE, from the row itself: SET n = n + 1.";
    "read-check-write", "no", "isolation: what was checked is changed", "§6, TPC-C's isolation requirements",
        "Two transactions that both find the same thing both act on it.",
        "Route by what is checked, so that the guard stays on one partition.";
    "not-understood", "unknown", "a transaction that may do anything", "§5.3: unrecognised combinations are flagged",
        "What is not understood may break any invariant.",
        "Look up under Left out what is not understood, and where.";
    "unrecognised", "unknown", "the invariant is not recognised", "§5.3: unrecognised combinations are flagged",
        "What is not understood is not called safe.",
        "Write the assertion as NOT EXISTS over one comparison, or declare it as a constraint.";
    "serializable", "no", "everything that is read or written is ordered", "§2, serializability as the baseline",
        "Serializability was asked for: what others write is ordered with every read and write of it.",
        "Ask for the declared invariants alone: --guarantee invariants.";
}
