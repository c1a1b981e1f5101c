CREATE TABLE items (id integer PRIMARY KEY, name text, stock integer);
CREATE FUNCTION case_of(n integer) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    CASE n
        WHEN 1, 2 THEN RETURN 'few';
        WHEN 3 THEN RETURN 'three';
        WHEN NULL THEN RETURN 'never';
        ELSE RETURN 'many';
    END CASE;
END $$;
CREATE FUNCTION case_searched(n integer) RETURNS text LANGUAGE plpgsql AS $$
DECLARE t text := '';
BEGIN
    CASE WHEN n > 10 THEN t := 'large';
         WHEN n > 5 AND (CASE WHEN n = 7 THEN true ELSE false END) THEN t := 'seven';
         WHEN n = 0 THEN NULL;
    END CASE;
    RETURN t || '!';
END $$;
CREATE FUNCTION case_missing(n integer) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    CASE (SELECT count(*) + n FROM items) WHEN 3 THEN RETURN 'x'; WHEN (SELECT 4) THEN RETURN 'y'; END CASE;
END $$;
CREATE FUNCTION case_in_loop(n integer) RETURNS text LANGUAGE plpgsql AS $$
DECLARE s text := '';
BEGIN
    FOR i IN 1..n LOOP
        CASE i % 3 WHEN 0 THEN s := s || 'z'; CONTINUE; WHEN 1 THEN s := s || 'o'; ELSE EXIT WHEN i > 6; s := s || 't'; END CASE;
        s := s || i;
    END LOOP;
    RETURN s;
END $$;
CREATE FUNCTION asserted(n integer) RETURNS integer LANGUAGE plpgsql AS $$
BEGIN
    ASSERT n > 0;
    ASSERT n < 10, 'too large: ' || n;
    ASSERT n <> 5, NULL;
    RETURN n;
END $$;
CREATE FUNCTION labelled(n integer) RETURNS text LANGUAGE plpgsql AS $$
DECLARE s text := '';
BEGIN
    <<outer>>
    FOR i IN 1..5 LOOP
        <<inner>>
        FOR j IN 1..5 LOOP
            CONTINUE outer WHEN j > i;
            EXIT outer WHEN i * j > n;
            CONTINUE inner WHEN j = 2;
            EXIT inner WHEN j = 4;
            s := s || i || j || ' ';
        END LOOP inner;
        s := s || '/';
    END LOOP outer;
    RETURN s || found;
END $$;
CREATE FUNCTION labelled_block(n integer) RETURNS text LANGUAGE plpgsql AS $$
<<whole>>
DECLARE s text := 'a'; r record;
BEGIN
    <<part>>
    BEGIN
        s := s || 'b';
        EXIT part WHEN n = 1;
        s := s || 'c';
        FOR r IN SELECT id FROM items ORDER BY id LOOP
            BEGIN
                EXIT part WHEN r.id = n;
                CONTINUE WHEN r.id = 1;
            END;
            s := s || r.id;
        END LOOP;
        s := s || 'd';
    END part;
    IF n = 9 THEN EXIT whole; END IF;
    s := s || 'e';
    WHILE true LOOP
        BEGIN EXIT; END;
    END LOOP;
    RETURN s;
END whole $$;
CREATE FUNCTION labelled_while(n integer) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE i integer := 0; c integer := 0; a integer;
BEGIN
    <<w>> WHILE i < 10 LOOP
        i := i + 1;
        <<l>> LOOP
            c := c + 1;
            EXIT w WHEN c > n;
            <<f>> FOREACH a IN ARRAY ARRAY[1, 2, 3] LOOP
                CONTINUE w WHEN a = i;
                EXIT l WHEN a > 2;
            END LOOP f;
        END LOOP;
        c := c + 100;
    END LOOP w;
    RETURN c * 1000 + i;
END $$;
CREATE FUNCTION strict_scalar(a integer, b integer) RETURNS integer STRICT LANGUAGE plpgsql AS $$
BEGIN RETURN coalesce(a, 0) + coalesce(b, 0); END $$;
CREATE FUNCTION strict_sql(a integer) RETURNS integer LANGUAGE sql IMMUTABLE RETURNS NULL ON NULL INPUT AS 'SELECT coalesce(a, 7) + 1';
CREATE FUNCTION strict_rows(a integer) RETURNS TABLE (x integer) STRICT LANGUAGE plpgsql AS $$
BEGIN x := coalesce(a, 7); RETURN NEXT; END $$;
CREATE FUNCTION strict_out(a integer, OUT x integer, INOUT y integer) STRICT LANGUAGE plpgsql AS $$
BEGIN x := 1; y := y + coalesce(a, 7); END $$;
CREATE FUNCTION strict_none() RETURNS integer STRICT LANGUAGE sql AS 'SELECT 1';
CREATE FUNCTION strict_caller(a integer) RETURNS text LANGUAGE plpgsql AS $$
DECLARE v integer := 5; BEGIN v := strict_scalar(a, 1); RETURN coalesce(v::text, 'none'); END $$;
CREATE FUNCTION fields(n integer) RETURNS text LANGUAGE plpgsql AS $$
DECLARE r record; i items; j items%ROWTYPE;
BEGIN
    SELECT id, name INTO r FROM items WHERE id = n;
    r.name := coalesce(r.name, '?') || '!';
    r.id := r.id + 1.6;
    i.id := n; i.name := 'made';
    SELECT * INTO j FROM items WHERE id = n;
    j.stock := j.stock * 2;
    RETURN concat_ws(',', r.id, r.name, i.id, i.name, i.stock, j.id, j.stock);
END $$;
