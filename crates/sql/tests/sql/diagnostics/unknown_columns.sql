CREATE TABLE t (a integer PRIMARY KEY, b text NOT NULL, c numeric(4, 1));
CREATE PROCEDURE reads(x integer) LANGUAGE SQL BEGIN ATOMIC
    SELECT a, d FROM t WHERE a = x;
END;
CREATE PROCEDURE writes(x integer) LANGUAGE SQL BEGIN ATOMIC
    UPDATE t SET bb = 'y' WHERE a = x;
END;
CREATE PROCEDURE inserts(x integer) LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO t (a, e) VALUES (x, 1);
END $$;
