CREATE FUNCTION f(a integer) RETURNS integer LANGUAGE plpgsql AS $$
BEGIN
    IF a > 1 THEN
        RETURN 2;
    RETURN 3;
END;
$$;
