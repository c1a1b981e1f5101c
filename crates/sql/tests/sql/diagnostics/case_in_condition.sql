CREATE FUNCTION f(a integer) RETURNS integer LANGUAGE plpgsql AS $$
BEGIN
    IF CASE WHEN a > 1 THEN true ELSE false END THEN
        RETURN 2;
    END IF;
    RETURN 3;
END;
$$;
