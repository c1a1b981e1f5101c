CREATE TABLE warehouse (id bigint PRIMARY KEY, name text NOT NULL UNIQUE);
CREATE TABLE level (
    warehouse_id bigint NOT NULL REFERENCES warehouse (id),
    part text NOT NULL,
    amount bigint NOT NULL,
    PRIMARY KEY (warehouse_id, part)
);
