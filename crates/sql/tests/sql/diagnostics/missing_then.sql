CREATE FUNCTION f(a integer) RETURNS integer LANGUAGE plpgsql AS $$
BEGIN
    IF a > 1
        RETURN 2;
    END IF;
    RETURN 3;
END;
$$;
