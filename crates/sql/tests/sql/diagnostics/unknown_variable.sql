CREATE TABLE t (a integer);
CREATE FUNCTION f(p integer) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    most CONSTANT integer := 10;
    total integer;
    total bigint;
BEGIN
    NULL;
END;
$$;
CREATE FUNCTION g(p integer) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    most CONSTANT integer := 10;
BEGIN
    SELECT max(a) INTO largest FROM t;
    most := 11;
    smallest := 1;
    FOR r IN SELECT a FROM t LOOP
        NULL;
    END LOOP;
END;
$$;
