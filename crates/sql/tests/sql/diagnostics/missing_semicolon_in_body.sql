CREATE TABLE t (a integer);
CREATE FUNCTION f(p integer) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    b integer
BEGIN
    UPDATE t SET a = 1
    RETURN p;
END;
$$;
CREATE FUNCTION g(p integer) RETURNS integer LANGUAGE plpgsql AS $$
BEGIN
    UPDATE t SET a = 1
    RETURN p;
END;
$$;
