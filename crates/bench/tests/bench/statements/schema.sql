-- The tables of the statement test: every type, every kind of constraint, every referential action.

CREATE TABLE place (
    id      integer PRIMARY KEY,
    name    varchar(12) NOT NULL UNIQUE,
    code    char(4),
    area    numeric(8, 2) CHECK (area >= 0),
    founded date,
    is_open boolean NOT NULL DEFAULT true
);

CREATE TABLE person (
    id       integer PRIMARY KEY,
    place_id integer REFERENCES place (id) ON DELETE CASCADE ON UPDATE CASCADE,
    nick     text,
    grade    smallint CHECK (grade BETWEEN 0 AND 100),
    credit   bigint NOT NULL DEFAULT 0,
    rate     double precision,
    weight   real,
    seen     timestamp,
    joined   timestamptz,
    token    uuid,
    photo    bytea,
    UNIQUE (place_id, nick)
);

CREATE INDEX person_by_grade ON person (grade, credit);
CREATE INDEX person_by_seen ON person (seen);

CREATE TABLE visit (
    place_id  integer NOT NULL REFERENCES place (id),
    number    integer NOT NULL,
    person_id integer REFERENCES person (id) ON DELETE SET NULL ON UPDATE CASCADE,
    guide_id  integer DEFAULT 1 REFERENCES person (id) ON DELETE SET DEFAULT ON UPDATE SET NULL,
    fee       numeric(6, 2) NOT NULL DEFAULT 1.50,
    tip       numeric,
    note      text DEFAULT 'none',
    day       date NOT NULL,
    PRIMARY KEY (place_id, number),
    CONSTRAINT guided_by_another CHECK (guide_id <> person_id)
);

CREATE INDEX visit_by_day ON visit (day, fee);
CREATE INDEX visit_by_person ON visit (person_id);

CREATE TABLE entry (
    id       bigint PRIMARY KEY,
    place_id integer,
    number   integer,
    amount   numeric(10, 4) NOT NULL,
    quantity integer NOT NULL CHECK (quantity > 0),
    CHECK (amount * quantity < 100000),
    FOREIGN KEY (place_id, number) REFERENCES visit (place_id, number)
        ON DELETE CASCADE ON UPDATE CASCADE
);

-- Its rows have no name of their own.
CREATE TABLE tag (
    person_id integer NOT NULL REFERENCES person (id) ON DELETE RESTRICT,
    word      varchar(8) NOT NULL,
    strength  integer,
    UNIQUE (person_id, word)
);

CREATE TABLE log (
    at    timestamp,
    what  text,
    level smallint
);

CREATE VIEW open_place AS
    SELECT id, name, area
    FROM place
    WHERE is_open;

CREATE VIEW visit_total (place_id, visits, fees) AS
    SELECT place_id, count(*), sum(fee)
    FROM visit
    GROUP BY place_id;
