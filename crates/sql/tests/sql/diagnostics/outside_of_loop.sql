CREATE FUNCTION f(a integer) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXIT WHEN a > 1;
    WHILE a < 3 LOOP
        CONTINUE;
    END LOOP;
END;
$$;
