-- The seats left of a flight are those that are not reserved.
CREATE ASSERTION seats_left CHECK (
    NOT EXISTS (
        SELECT *
        FROM flight
        WHERE f_seats_left <> f_seats_total - (SELECT count(*) FROM reservation WHERE r_f_id = f_id)
    )
);
