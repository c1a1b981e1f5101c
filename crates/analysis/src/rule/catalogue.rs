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
    "eq-any", "yes", "a test of one column that is only assigned", "Table 2, rows 1 and 2 (claims 1, 2)",
        "The merged value is one that a replica wrote, and that replica checked it.", "";
    "eq-counter", "no", "a test of one column that is incremented", "Table 2, row 2, for counters (§5.2)",
        "Two amounts that each lead to an allowed value may add up to a forbidden one.",
        "Assign the value instead, or state the test as a bound.";
    "null-computed", "unknown", "NOT NULL: computed from the row", "§5.3",
        "Computed from a row that a concurrent transaction has changed, the value may be NULL.",
        "Write the expression so that it is never NULL: with coalesce(), or an ELSE.";
    "unique-chosen", "no", "unique: the key is chosen", "Table 2, row 3 (claim 3)",
        "{Stan:5} and {Mary:5} are each valid; together they are not.",
        "Let the database generate the key (uuid, identity).";
    "unique-generated", "yes", "unique: the key is generated", "Table 2, row 4 (claim 4)",
        "Each replica generates from its own part of the name space.", "";
    "unique-delete", "yes", "unique: rows are removed", "§5.1",
        "Removing rows cannot introduce duplicates.", "";
    "unique-derived", "yes", "unique: the key contains the key of a row inserted with it", "§5.1, by composition",
        "Two such keys can be equal only if the keys inserted with them are.", "";
    "unique-sequential", "yes", "unique: the key contains a number that a guard gives out once", "§6.1",
        "The counter's guard orders the calls, so two calls never get the same number of one counter.", "";
    "sequential-insert", "no", "consecutive ids: insert", "Table 2, row 5 (claim 5)",
        "Two replicas that append one row each both take the next id.",
        "Take the number from a counter row by UPDATE … RETURNING, and use it in the INSERT only: then it is \
         deferred to commit. Or use generated ids.";
    "sequential-delete", "no", "consecutive ids: delete", "Table 3, rows 2 and 3",
        "Two replicas that each remove the lowest id remove the same one.",
        "Route by the columns that identify the group, so that the guard stays on one partition.";
    "sequential-change", "no", "consecutive ids: renumber", "Table 2, row 5",
        "An id that one replica changes and another removes leaves a gap or a duplicate.", "Do not update ids.";
    "extremum-insert", "no", "a stored greatest or least value: insert", "§5.3 (unrecognised combinations are flagged)",
        "Each replica stores its own extreme; the merge keeps one of the two.",
        "Compute the extreme when it is read.";
    "extremum-update", "no", "a stored greatest or least value: update", "§5.3",
        "The merge may take the stored value from one replica and the row that has it from the other.",
        "Compute the extreme when it is read.";
    "fk-insert", "yes", "foreign key: insert", "Table 2, row 6 (claim 6)",
        "A reference would dangle only if the merge removed its target; it removes only rows that a transaction deleted.", "";
    "fk-delete", "no", "foreign key: delete", "Table 2, row 7 (claim 7)",
        "One replica may insert a reference to a row while another deletes the row: a user into a closed department.",
        "Mark the row as deleted instead, or stop inserting references to it first.";
    "fk-cascade", "yes or no", "foreign key: cascading delete", "Table 2, row 8 (claim 8)",
        "Confluent exactly if the merge cascades too, and deletes references that were inserted concurrently. \
         Here it does not, so the verdict is no.",
        "Mark the row as deleted instead.";
    "fk-unopposed", "yes", "foreign key: delete, without references", "Table 2, row 7, closed world",
        "No transaction type inserts a reference, so none is inserted while the row is deleted.", "";
    "index-update", "yes", "secondary index: update", "Table 2, row 9 (claim 9)",
        "An entry is a function of its row and changes with it.", "";
    "mv-update", "yes", "materialized view, sums that agree: update", "Table 2, row 10 (claim 10)",
        "If the amounts of each transaction cancel out in the equation, so do those of any set of transactions.", "";
    "mv-overwrite", "no", "sums that agree: a side is overwritten", "Table 2, row 10, with §5.2's merge",
        "The merge keeps one of two written values on this side, but both transactions' amounts on the other.",
        "Write it as an increment: SET total = total + amount. Declare the column NOT NULL, or refuse an amount that is NULL.";
    "mv-transition", "no", "sums that agree: a row is moved into or out of a sum", "Table 2, row 10, by effects (§4.1)",
        "Two transactions move the same row once, but each adds its amount.",
        "Let each transaction claim the row first, for example by deleting a row of a queue.";
    "mv-founding", "no", "sums that agree: a group's row is inserted behind its rows", "Table 2, row 10, by effects (§4.1)",
        "Rows that are inserted into a group before the group's row exists are not counted in its total.",
        "Declare the foreign key, or let the database generate the group's key.";
    "mv-unmaintained", "unknown", "sums that agree: one side is changed alone", "§3, validity of each transaction",
        "A transaction that breaks the equation when it runs alone breaks it however it is ordered.",
        "Change the other side in the same transaction, or change the assertion.";
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
        "Computed from a row that a concurrent transaction has changed, the value may be beyond the bound.",
        "Write it as an increment or an assignment.";
    "contains-any", "yes", "a certain row or value must (not) be there", "Table 2, rows 15 and 16 (claims 15, 16)",
        "No replica can remove (or insert) it, so neither does the merge.", "";
    "size-mutation", "no", "a fixed number of rows", "Table 2, row 17 (claim 17)",
        "Each replica may exchange one row for another; the merge has both new ones.",
        "Update rows in place.";
    "row-together", "yes", "a test of several columns, assigned together", "Table 2, rows 1 and 2, by columns",
        "The merge takes all of them from the transaction with the highest timestamp. Columns that are never updated count too, where a row may be inserted again under its key.", "";
    "row-mixed", "no", "a test or a reference of several columns, assigned separately", "§5.2's merge, column by column",
        "The merge may take one column from one replica and another column from the other.",
        "Assign all of the columns in each UPDATE that assigns one.";
    "solver", "yes", "a condition on each row that no rule decides: proved", "Definition 6 (§4.1), by a solver",
        "The solver shows that no merge of two valid replicas, reached from a valid row by any calls, violates it.",
        "";
    "nonempty-delete", "no", "at least one row: delete", "§4.1's payroll example",
        "Two replicas may each remove the row that the other relies on.",
        "Keep one certain row, named in the assertion by its key.";
    "nonempty-insert", "yes", "at least one row: insert", "§4.1",
        "One more row cannot violate it.", "";
    "iff-one-way", "yes", "if and only if: both sides turn once, together", "Table 3, rows 5 and 7",
        "A transaction turns both sides together, and none turns them back.", "";
    "iff-two-way", "no", "if and only if: sides turn back and forth", "§5.3",
        "The merge may keep one transaction's change of one side and another transaction's change of the other.",
        "Make the change one-way: insert a new row rather than turn an old one back.";
    "iff-unmaintained", "unknown", "if and only if: one side turns alone", "§3, validity of each transaction",
        "A transaction that breaks the equivalence when it runs alone breaks it however it is ordered.",
        "Turn the other side in the same transaction, or change the assertion.";
    "commutative-update", "yes", "isolation: increments", "§5.2, counters",
        "Amounts add up in any order; none is lost.", "";
    "owner-order", "yes", "isolation: a function of the row, at its one owner", "§6.1, deferred to commit",
        "One owner applies each update once, in the order of commits: no update is lost.", "";
    "blind-write", "yes", "isolation: what is written does not depend on what was there", "§3, versions",
        "It uses no value that a concurrent write could make stale.", "";
    "append-behind", "yes", "isolation: appended behind the least number", "§6.1, Delivery beside New-Order",
        "A number greater than the least one does not change the least one.", "";
    "lost-update", "no", "isolation: written from what was read", "§5.2, the Lost Update anomaly",
        "Of two values computed from the same old one, the merge keeps one.",
        "Compute it in the UPDATE, from the row itself: SET n = n + 1.";
    "read-check-write", "no", "isolation: what was checked is changed", "§6, TPC-C's isolation requirements",
        "Two concurrent transactions read the same state, and both act on it.",
        "Route by the key of the rows that are checked, so that the guard stays on one partition.";
    "not-analysed", "unknown", "a transaction type that was not analysed", "§5.3: unrecognised combinations are flagged",
        "A transaction type that the analyser could not read may break any invariant.",
        "The section Skipped of the report says what could not be read, and where.";
    "unrecognised", "unknown", "the invariant is not recognised", "§5.3: unrecognised combinations are flagged",
        "An assertion that no rule recognises is never called safe.",
        "Write the assertion as NOT EXISTS over one comparison, or declare it as a constraint.";
    "serializable", "no", "serializability: every row that is read or written is a guard", "§2, serializability as the baseline",
        "Under --guarantee serializable every write is ordered with every other access to the same row.",
        "Ask for the declared invariants alone: --guarantee invariants.";
}
