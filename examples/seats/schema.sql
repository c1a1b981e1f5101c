-- SEATS: an airline's reservations. After the benchmark of that name in OLTP-Bench, reduced to what its
-- reservations touch.

CREATE TABLE customer (
    c_id      bigint         NOT NULL,
    c_balance numeric(12, 2) NOT NULL,
    PRIMARY KEY (c_id)
);

CREATE TABLE flight (
    f_id          bigint         NOT NULL,
    f_depart_time timestamp      NOT NULL,
    f_base_price  numeric(12, 2) NOT NULL,
    f_seats_total integer        NOT NULL,
    f_seats_left  integer        NOT NULL CHECK (f_seats_left >= 0),
    PRIMARY KEY (f_id)
);

-- A seat of a flight is reserved once, and a customer has one seat on it.
CREATE TABLE reservation (
    r_id    bigint         NOT NULL,
    r_c_id  bigint         NOT NULL,
    r_f_id  bigint         NOT NULL,
    r_seat  integer        NOT NULL,
    r_price numeric(12, 2) NOT NULL,
    PRIMARY KEY (r_f_id, r_id),
    UNIQUE (r_f_id, r_seat),
    UNIQUE (r_f_id, r_c_id),
    FOREIGN KEY (r_c_id) REFERENCES customer (c_id),
    FOREIGN KEY (r_f_id) REFERENCES flight (f_id)
);
