CREATE TABLE t (a integer);
CREATE FUNCTION f() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    b integer;
BEGIN
    SELECT a FROM t;
    DELETE FROM t RETURNING a;
    UPDATE t SET a = 1 INTO b;
    SELECT a INTO b FROM t INTO b;
END;
$$;
