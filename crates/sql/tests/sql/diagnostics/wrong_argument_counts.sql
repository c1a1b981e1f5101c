CREATE TABLE t (a integer PRIMARY KEY, b text NOT NULL, c numeric(4, 1));
CREATE PROCEDURE one(x integer) LANGUAGE SQL BEGIN ATOMIC
    UPDATE t SET c = abs(c, 1) WHERE a = x;
END;
CREATE FUNCTION two(x integer, y text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE t SET b = y WHERE a = x;
END $$;
CREATE PROCEDURE calls(x integer) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM two(x);
END $$;
