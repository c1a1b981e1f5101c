-- Every statement of the PL/pgSQL subset, and the forms in which routines may be declared.
CREATE TABLE account (
    id      integer        PRIMARY KEY,
    owner   varchar(40)    NOT NULL,
    balance numeric(12, 2) NOT NULL DEFAULT 0
);

CREATE OR REPLACE FUNCTION public.Everything(
    IN p_ids integer[],
    p_limit account.balance%TYPE DEFAULT 10.5,
    INOUT p_seen bigint = 0,
    OUT "Total" numeric
) RETURNS record
LANGUAGE plpgsql VOLATILE PARALLEL SAFE COST 100
AS $body$
DECLARE
    one account%ROWTYPE;
    any_row record;
    found_id account.id%TYPE;
    most CONSTANT p_limit%TYPE DEFAULT p_limit * 2;
    names text[] := ARRAY['a', 'b'];
    counter integer = 0;
BEGIN
    /* nested /* comments */ stay out */
    "Total" := 0;
    p_seen = p_seen + 1;
    names[1 + 1] := 'c;d';
    SELECT * INTO STRICT one FROM account WHERE id = p_ids[1];
    SELECT id, (SELECT max(id) FROM account) INTO found_id, counter FROM account ORDER BY 1 LIMIT 1;
    SELECT balance FROM account WHERE id = 1 INTO "Total";
    INSERT INTO account (id, owner) VALUES (1, E'it''s\n') ON CONFLICT (id) DO NOTHING;
    INSERT INTO account (id, owner) SELECT id + 100, owner FROM account RETURNING id INTO found_id;
    UPDATE account SET balance = balance - 1 WHERE id = found_id RETURNING balance INTO STRICT "Total";
    WITH rich AS (SELECT id FROM account WHERE balance > 10) DELETE FROM account a USING rich r WHERE a.id = r.id;
    GET DIAGNOSTICS counter = ROW_COUNT;
    PERFORM 1 FROM account WHERE id = 2;
    IF FOUND AND (CASE WHEN counter > 1 THEN true ELSE false END) THEN
        NULL;
    ELSIF counter = 0 THEN
        RAISE NOTICE 'nothing: % of %%', counter;
    ELSE
        RAISE EXCEPTION 'limit % passed', most USING ERRCODE = 'check_violation', HINT = 'pay';
    END IF;
    FOR i IN 1..10 LOOP
        CONTINUE WHEN i % 2 = 0;
        EXIT WHEN i > 7;
    END LOOP;
    FOR i IN REVERSE cardinality(p_ids)..1 BY 2 LOOP
        counter := counter + i;
    END LOOP;
    FOR any_row IN SELECT id, balance FROM account ORDER BY id LOOP
        "Total" := "Total" + any_row.balance;
    END LOOP;
    FOR found_id, counter IN SELECT id, 1 FROM account LOOP
        EXIT;
    END LOOP;
    FOREACH counter IN ARRAY p_ids LOOP
        WHILE counter > 0 LOOP
            counter := counter - 1;
        END LOOP;
    END LOOP;
    LOOP
        EXIT;
    END LOOP;
    DECLARE
        inner_one integer := 1;
    BEGIN
        inner_one := inner_one + 1;
    END;
    RAISE division_by_zero;
    RAISE SQLSTATE '22012' USING MESSAGE = 'zero ' || counter;
    RETURN;
END;
$body$;

CREATE FUNCTION rows_of(p_owner text) RETURNS TABLE (id integer, balance numeric) STABLE AS '
BEGIN
    RETURN QUERY SELECT a.id, a.balance FROM account a WHERE a.owner = p_owner || ''''''x'';
    id := 1;
    RETURN NEXT;
    RETURN;
END' LANGUAGE plpgsql;

CREATE FUNCTION numbers(integer, n integer DEFAULT 3) RETURNS SETOF integer LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 1..n LOOP
        RETURN NEXT i * $1;
    END LOOP;
END
$$;

CREATE FUNCTION owners(OUT a integer, OUT b text) RETURNS SETOF record LANGUAGE sql
    AS $$ SELECT id, owner::text FROM account; $$;

CREATE FUNCTION doubled(x double precision) RETURNS double precision LANGUAGE SQL IMMUTABLE
    RETURN x * 2;

CREATE PROCEDURE pay(p_id integer, p_amount numeric) LANGUAGE SQL
BEGIN ATOMIC
    UPDATE account SET balance = CASE WHEN p_amount > 0 THEN balance - p_amount ELSE balance END
    WHERE id = p_id;
    INSERT INTO account (id, owner) VALUES (p_id + 1, 'new');
END;

CREATE FUNCTION balance_of(p_id integer) RETURNS account.balance%TYPE LANGUAGE SQL
BEGIN ATOMIC
    SELECT balance FROM account WHERE id = p_id;
END;

CREATE FUNCTION accounts() RETURNS SETOF account LANGUAGE SQL AS 'SELECT * FROM account';
