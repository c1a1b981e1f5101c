-- A branch's funds are what is in its accounts.
CREATE ASSERTION funds_add_up CHECK (
    NOT EXISTS (
        SELECT *
        FROM branches
        WHERE funds <> (SELECT coalesce(sum(balance), 0) FROM accounts
                        WHERE branch_id = branches.id)
    )
);
