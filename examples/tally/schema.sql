-- Groups of tallies, counted up and down together: what is done to each column comes to the same in any
-- order, so copies of it need not agree on one.
CREATE TABLE tallies (
    id     integer NOT NULL,
    total  bigint  NOT NULL,
    most   bigint  NOT NULL,
    least  bigint  NOT NULL,
    latest bigint  NOT NULL,
    PRIMARY KEY (id)
);
