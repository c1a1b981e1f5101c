-- The application whose system catalogs the queries beside this file read. PostgreSQL loads it unchanged.

CREATE TABLE shops (
    id      integer PRIMARY KEY,
    name    varchar(20) NOT NULL DEFAULT 'x',
    price   numeric(10, 2) CHECK (price > 0),
    opened  timestamptz DEFAULT now(),
    code    char(3),
    tags    bytea,
    CONSTRAINT named CHECK (id + 1 > 0 AND name <> 'z' OR price IS NULL),
    CHECK (name IN ('a', 'b') OR length(name) < 5)
);

CREATE TABLE sales (
    id      bigserial PRIMARY KEY,
    shop    integer REFERENCES shops ON DELETE CASCADE,
    number  bigint GENERATED ALWAYS AS IDENTITY,
    amount  numeric DEFAULT 1 + 2,
    "Mixed" boolean DEFAULT false,
    UNIQUE (shop, id)
);

CREATE INDEX ON sales (shop);
CREATE UNIQUE INDEX numbers ON sales (number, amount);

CREATE VIEW open_shops AS SELECT id, name FROM shops;

CREATE FUNCTION twice(a integer, b text DEFAULT 'y') RETURNS integer LANGUAGE SQL BEGIN ATOMIC
    SELECT a * 2;
END;

CREATE FUNCTION listed(p_id integer) RETURNS TABLE (id integer, name varchar) LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY SELECT s.id, s.name FROM shops s WHERE s.id = p_id;
END
$$;

CREATE PROCEDURE close_shop(p_id integer) LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM shops WHERE id = p_id;
END
$$;
