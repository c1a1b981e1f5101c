CREATE FUNCTION f() RETURNS integer LANGUAGE plpgsql AS $$
BEGIN
    RETURN 1 / 0;
EXCEPTION
    WHEN division_by_zero THEN
        RETURN 0;
END;
$$;
