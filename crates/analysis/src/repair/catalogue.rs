//! The kinds of repairs by name.

/// A kind of repair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// Its code, which reports name and which never changes.
    pub code: &'static str,
    /// What it does.
    pub title: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    /// Why less has to be ordered with it.
    pub why: &'static str,
    /// What an application gives up, or has to accept.
    pub gives_up: &'static str,
    /// Among repairs that save the same: how much the application gives up. The least comes first.
    pub(super) rank: u8,
}

/// The kind with this code.
pub fn kind_by_code(code: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| kind.code == code)
}

/// Every kind, in order of what the application gives up. A combination gives up what each of its steps does.
pub const KINDS: &[Kind] = &[
    Kind {
        code: "repair-combination",
        title: "several changes, one after the other: each is the best one after the changes before it",
        source: "Coordination Avoidance in Database Systems, §6.1, one application's transactions together",
        why: "Coordination that one change leaves is removed by another.",
        gives_up: "Everything that its steps give up.",
        rank: 0,
    },
    Kind {
        code: "repair-increment",
        title: "a value that is computed from a row that was read: computed by the UPDATE",
        source: "Coordination Avoidance in Database Systems, §5.2, counters",
        why: "Amounts add up, and the row's owner applies each once: no update is lost, and nothing has to stay \
              as it was read.",
        gives_up: "The row counts as it is when the transaction commits, not as it was read.",
        rank: 0,
    },
    Kind {
        code: "repair-check-in-update",
        title: "a row that is read, and changed if it passes a check: checked by the UPDATE, from the row",
        source: "Coordination Avoidance in Database Systems, §5.2, lost updates of withdrawals",
        why: "The row's owner checks and changes it in one, at commit: nothing has to stay as it was read.",
        gives_up: "The row is checked as it is when the transaction commits, not as it was read.",
        rank: 0,
    },
    Kind {
        code: "repair-take-number",
        title: "a number that is read and counted on: taken by one UPDATE … RETURNING",
        source: "Coordination Avoidance in Database Systems, §6.1, deferred to commit",
        why: "A number of the counter tells its rows from all others. Where nothing is computed from it, the \
              counter's owner gives it out at commit, and nothing is held meanwhile.",
        gives_up: "Where the owner gives it out at commit, the number is known only after the commit.",
        rank: 1,
    },
    Kind {
        code: "repair-routing-parameter",
        title: "a value that is looked up and tells where guards lie: one more parameter",
        source: "Scaling Out ACID Applications with Operation Partitioning, §3.1",
        why: "A call that is routed by what its guards are told apart by has them on its own partition.",
        gives_up: "Callers have to know the value.",
        rank: 2,
    },
    Kind {
        code: "repair-generated-key",
        title: "a key computed from the rows that there are, or chosen by the caller: generated",
        source: "Coordination Avoidance in Database Systems, Table 2, rows 3 and 4 (claims 3, 4)",
        why: "Each replica generates from its own part of the name space.",
        gives_up: "Keys have gaps and tell nothing of the order of rows; callers do not choose them.",
        rank: 3,
    },
    Kind {
        code: "repair-mark-deleted",
        title: "a row that others refer to is deleted: marked as deleted",
        source: "Coordination Avoidance in Database Systems, Table 2, rows 6 and 7 (claims 6, 7)",
        why: "No row goes, so that no reference to it dangles.",
        gives_up: "Marked rows stay, and every query has to leave them out.",
        rank: 4,
    },
    Kind {
        code: "repair-cascade",
        title: "a row that others refer to is deleted: with what refers to it",
        source: "Coordination Avoidance in Database Systems, Table 2, row 8 (claim 8)",
        why: "It helps where merging cascades, too. Here it does not, so that it is tried and found of no use.",
        gives_up: "What refers to the row goes with it.",
        rank: 4,
    },
    Kind {
        code: "repair-lock-read",
        title: "a row that is read and changed: locked when it is read, by FOR UPDATE",
        source: "Coordination Avoidance in Database Systems, §5.2, lost updates of withdrawals",
        why: "It helps where a snapshot is all that reads get. Here what a transaction reads, acts on and changes \
              is held to commit in any case, so that this is tried and found of no use.",
        gives_up: "Other transactions wait for the row from the read on.",
        rank: 4,
    },
    Kind {
        code: "repair-guarantee",
        title: "serializability was asked for: keep the declared invariants only",
        source: "Coordination Avoidance in Database Systems, §2, serializability as the baseline",
        why: "Only accesses that an invariant requires to be ordered are ordered.",
        gives_up: "Every rule that has to hold must be declared.",
        rank: 5,
    },
    Kind {
        code: "repair-escrow",
        title: "a number moves towards its bound: what is left of it is split into shares of sites (escrow)",
        source: "Coordination Avoidance in Database Systems, Table 2, rows 12 and 13 (claims 12, 13)",
        why: "A call that takes from the share of one site is routed by the site, whichever rows it takes from.",
        gives_up: "A site is refused where its share is not enough, though others have something left. The \
                   application moves amounts between them, and callers say which site they are.",
        rank: 6,
    },
];
