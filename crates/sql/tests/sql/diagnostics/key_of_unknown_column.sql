CREATE TABLE warehouse (
    w_id integer,
    w_name text,
    PRIMARY KEY (w_idd),
    UNIQUE (w_name, w_name)
);
CREATE INDEX by_city ON warehouse (w_city);
