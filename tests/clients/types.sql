-- The application that the programs of this folder talk to. PostgreSQL loads it unchanged.
--
-- Every program gets a fresh database with it, so no program cleans up.

-- A column of each type. Every column but the key may be NULL.
CREATE TABLE every_type (
    id                integer PRIMARY KEY,
    a_bool            boolean,
    an_int2           smallint,
    an_int4           integer,
    an_int8           bigint,
    a_numeric         numeric,
    a_money           numeric(12, 2),
    a_float4          real,
    a_float8          double precision,
    a_text            text,
    a_varchar         varchar(12),
    a_char            char(6),
    a_bytea           bytea,
    a_uuid            uuid,
    a_timestamp       timestamp,
    a_timestamptz     timestamptz,
    a_date            date
);

-- A column of each array type that drivers know.
CREATE TABLE every_array (
    id                integer PRIMARY KEY,
    some_bool         boolean[],
    some_int4         integer[],
    some_int8         bigint[],
    some_numeric      numeric[],
    some_text         text[],
    some_timestamptz  timestamptz[]
);

-- For errors by class: each constraint has a name that clients read.
CREATE TABLE customers (
    id    integer PRIMARY KEY,
    email text    NOT NULL,
    age   integer,
    CONSTRAINT customers_email_is_unique UNIQUE (email),
    CONSTRAINT customers_are_born CHECK (age >= 0)
);

CREATE TABLE orders (
    id          integer PRIMARY KEY,
    customer_id integer NOT NULL,
    amount      numeric(10, 2) NOT NULL,
    CONSTRAINT orders_have_a_customer FOREIGN KEY (customer_id) REFERENCES customers (id)
);

-- Written by a procedure, and by batches.
CREATE TABLE notes (
    id   integer PRIMARY KEY,
    body text NOT NULL
);

-- Functions that take a value of a type and return it.
CREATE FUNCTION same_bool(p boolean) RETURNS boolean LANGUAGE SQL IMMUTABLE
BEGIN ATOMIC SELECT p; END;
CREATE FUNCTION same_int2(p smallint) RETURNS smallint LANGUAGE SQL IMMUTABLE
BEGIN ATOMIC SELECT p; END;
CREATE FUNCTION same_int4(p integer) RETURNS integer LANGUAGE SQL IMMUTABLE
BEGIN ATOMIC SELECT p; END;
CREATE FUNCTION same_int8(p bigint) RETURNS bigint LANGUAGE SQL IMMUTABLE
BEGIN ATOMIC SELECT p; END;
CREATE FUNCTION same_numeric(p numeric) RETURNS numeric LANGUAGE SQL IMMUTABLE
BEGIN ATOMIC SELECT p; END;
CREATE FUNCTION same_float4(p real) RETURNS real LANGUAGE SQL IMMUTABLE
BEGIN ATOMIC SELECT p; END;
CREATE FUNCTION same_float8(p double precision) RETURNS double precision LANGUAGE SQL IMMUTABLE
BEGIN ATOMIC SELECT p; END;
CREATE FUNCTION same_text(p text) RETURNS text LANGUAGE SQL IMMUTABLE
BEGIN ATOMIC SELECT p; END;
CREATE FUNCTION same_bytea(p bytea) RETURNS bytea LANGUAGE SQL IMMUTABLE
BEGIN ATOMIC SELECT p; END;
CREATE FUNCTION same_uuid(p uuid) RETURNS uuid LANGUAGE SQL IMMUTABLE
BEGIN ATOMIC SELECT p; END;
CREATE FUNCTION same_timestamp(p timestamp) RETURNS timestamp LANGUAGE SQL IMMUTABLE
BEGIN ATOMIC SELECT p; END;
CREATE FUNCTION same_timestamptz(p timestamptz) RETURNS timestamptz LANGUAGE SQL IMMUTABLE
BEGIN ATOMIC SELECT p; END;
CREATE FUNCTION same_date(p date) RETURNS date LANGUAGE SQL IMMUTABLE
BEGIN ATOMIC SELECT p; END;

-- A scalar, several values at once, a set of rows.
CREATE FUNCTION add(p_a integer, p_b integer) RETURNS integer LANGUAGE SQL IMMUTABLE
BEGIN ATOMIC
    SELECT p_a + p_b;
END;

CREATE FUNCTION divide(p_a integer, p_b integer, OUT quotient integer, OUT remainder integer)
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    quotient := p_a / p_b;
    remainder := p_a % p_b;
END;
$$;

CREATE FUNCTION notes_from(p_first integer) RETURNS TABLE (id integer, body text) LANGUAGE SQL STABLE
BEGIN ATOMIC
    SELECT n.id, n.body FROM notes AS n WHERE n.id >= p_first ORDER BY n.id;
END;

-- Writes; nothing is returned.
CREATE PROCEDURE write_note(p_id integer, p_body text) LANGUAGE SQL
BEGIN ATOMIC
    INSERT INTO notes (id, body) VALUES (p_id, p_body);
END;

-- Each table is written by some procedure: a table that none writes is never changed, and is not for clients to write.
CREATE PROCEDURE remove_type(p_id integer) LANGUAGE SQL
BEGIN ATOMIC
    DELETE FROM every_type WHERE id = p_id;
END;
CREATE PROCEDURE remove_array(p_id integer) LANGUAGE SQL
BEGIN ATOMIC
    DELETE FROM every_array WHERE id = p_id;
END;
CREATE PROCEDURE remove_customer(p_id integer) LANGUAGE SQL
BEGIN ATOMIC
    DELETE FROM customers WHERE id = p_id;
END;
CREATE PROCEDURE place_order(p_id integer, p_customer integer, p_amount numeric) LANGUAGE SQL
BEGIN ATOMIC
    INSERT INTO orders (id, customer_id, amount) VALUES (p_id, p_customer, p_amount);
END;

-- Raises an error of the application's own.
CREATE FUNCTION refuse(p_reason text) RETURNS integer LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'refused: %', p_reason USING ERRCODE = 'AB123';
END;
$$;
