CREATE TABLE t (a integer, b text);
CREATE FUNCTION f(p integer) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    total integer := 1 +;
BEGIN
    SELECT a FROM WHERE b = 'x' INTO total;
    IF total > THEN
        total := (1;
    END IF;
    FOR i IN 1..10 LOOP
        INSERT INTO t VALUES (i, 'x';
    END LOOP;
    RETURN total;
END;
$$;
