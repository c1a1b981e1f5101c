-- Epinions: reviews of items, and who trusts whom. After the benchmark of that name in OLTP-Bench.

CREATE TABLE useracct (
    u_id integer      NOT NULL,
    name varchar(128) NOT NULL,
    PRIMARY KEY (u_id)
);

CREATE TABLE item (
    i_id  integer      NOT NULL,
    title varchar(128) NOT NULL,
    PRIMARY KEY (i_id)
);

CREATE TABLE review (
    a_id   integer NOT NULL,
    u_id   integer NOT NULL,
    i_id   integer NOT NULL,
    rating integer CHECK (rating BETWEEN 0 AND 5),
    PRIMARY KEY (a_id),
    FOREIGN KEY (u_id) REFERENCES useracct (u_id),
    FOREIGN KEY (i_id) REFERENCES item (i_id)
);

CREATE INDEX review_by_item ON review (i_id);
CREATE INDEX review_by_user ON review (u_id);

CREATE TABLE trust (
    source_u_id integer NOT NULL,
    target_u_id integer NOT NULL,
    trust       integer NOT NULL CHECK (trust IN (0, 1)),
    PRIMARY KEY (source_u_id, target_u_id),
    FOREIGN KEY (source_u_id) REFERENCES useracct (u_id),
    FOREIGN KEY (target_u_id) REFERENCES useracct (u_id)
);
