-- The total is what the entries add up to.
CREATE ASSERTION totals_add_up CHECK (
    NOT EXISTS (
        SELECT *
        FROM counters
        WHERE total <> (SELECT coalesce(sum(amount), 0) FROM entries
                        WHERE counter_id = counters.id)
    )
);
