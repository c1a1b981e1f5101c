CREATE TABLE t (a integer);
CREATE FUNCTION f() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    every_row CURSOR FOR SELECT a FROM t;
BEGIN
    NULL;
END;
$$;
CREATE FUNCTION g() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    FETCH every_row INTO a;
END;
$$;
