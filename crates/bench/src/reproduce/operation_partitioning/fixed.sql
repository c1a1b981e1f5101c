-- Operations that take five milliseconds each (§7.3): a local one, and a global one, since other servers read what it writes.
CREATE TABLE own (id integer PRIMARY KEY, n integer NOT NULL);
CREATE TABLE shared (id integer PRIMARY KEY, n integer NOT NULL);

CREATE PROCEDURE run_local(p_id integer)
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_sleep(0.005);
    UPDATE own SET n = n + 1 WHERE id = p_id;
END;
$$;

CREATE PROCEDURE run_global(p_id integer)
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_sleep(0.005);
    UPDATE shared SET n = n + 1 WHERE id = p_id;
END;
$$;

CREATE FUNCTION read_shared(p_from integer) RETURNS TABLE (number integer)
LANGUAGE SQL STABLE
BEGIN ATOMIC
    SELECT n FROM shared WHERE id >= p_from;
END;
