CREATE FUNCTION f(a integer) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'a is % of %', a;
    RAISE NOTICE 'done', a;
    RAISE EXCEPTION 'bad' USING ERRCODE = 'no_such_condition';
END;
$$;
