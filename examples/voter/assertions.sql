-- The rule of the show: no telephone votes more than twice. The benchmark passes the limit as an
-- argument (p_votes_max) and states no invariant; this one says what the check is for.
CREATE ASSERTION two_votes_a_phone CHECK (
    NOT EXISTS (
        SELECT phone_number
        FROM votes
        GROUP BY phone_number
        HAVING count(*) > 2
    )
);
