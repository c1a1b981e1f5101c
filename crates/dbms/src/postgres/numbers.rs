//! The numbers that a transaction by hand has drawn from sequences, as SQL.
//!
//! Such a transaction runs provisionally, and again inside a hold. Its client may have seen the numbers that the first run has
//! drawn (`INSERT … RETURNING id`), so that the second one has to use them again instead of those that it draws.
//! Numbers are not given back by a rollback: the first ones stay the transaction's own.
//!
//! The first run tells its numbers by INFO messages with the SQLSTATE [`NUMBER`], which outlive its rollback, and which its
//! client does not get. The second run is given them before each statement ([`given`]). A value that is not the number that
//! was drawn last for its column was not drawn: it stays. A number is told with its sequence, and given to that one alone.
//!
//! A statement that asks for the last number (`currval`, `lastval`) would be told the one that was drawn the second time.
//! If a routine of the database does so, no numbers are given: a client that has seen one is then told that the
//! transaction has failed (40001).

use super::catalog::Sequence;
use super::{literal, quoted};

/// The SQLSTATE of the messages that tell a number.
pub const NUMBER: &str = "AB001";

/// What has a transaction tell its numbers.
pub const RECORD: &str = "SET LOCAL anabranch.numbers = 'record'";

/// The statement that gives numbers to the statement behind it; without any, those that it draws stay.
pub fn given(numbers: &[String]) -> String {
    let is_plain = |number: &&String| {
        number
            .bytes()
            .all(|b| b.is_ascii_digit() || b == b':' || b == b'-')
    };
    let numbers: Vec<&str> = numbers
        .iter()
        .filter(is_plain)
        .map(String::as_str)
        .collect();
    format!(
        "SET LOCAL anabranch.numbers = 'given {}'",
        numbers.join(" ")
    )
}

/// Creates what tells numbers, and what uses given ones, for the columns of these sequences.
pub fn triggers(sequences: &[Sequence]) -> String {
    let mut script = "CREATE FUNCTION anabranch.numbered(sequence regclass, value bigint) RETURNS bigint LANGUAGE plpgsql \
        SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $numbered$\n\
        DECLARE numbers text := current_setting('anabranch.numbers', true); first text;\n\
        BEGIN\n    \
        BEGIN\n        \
        IF currval(sequence) IS DISTINCT FROM value THEN RETURN value; END IF;\n    \
        EXCEPTION WHEN object_not_in_prerequisite_state THEN RETURN value;\n    \
        END;\n    \
        IF numbers = 'record' THEN\n        \
        RAISE INFO USING MESSAGE = sequence::oid || ':' || value, ERRCODE = 'AB001';\n        \
        RETURN value;\n    \
        END IF;\n    \
        first := split_part(numbers, ' ', 2);\n    \
        IF first = '' OR split_part(first, ':', 1) <> sequence::oid::text THEN RETURN value; END IF;\n    \
        PERFORM set_config('anabranch.numbers', 'given' || substr(numbers, 7 + length(first)), true);\n    \
        RETURN split_part(first, ':', 2)::bigint;\n\
        END\n\
        $numbered$;\n"
        .to_owned();
    for (place, sequence) in sequences.iter().enumerate() {
        let Some((schema, table, column)) = &sequence.owner else {
            continue;
        };
        let column = quoted(column);
        script.push_str(&format!(
            "DO $create$ BEGIN\n\
             IF EXISTS (SELECT FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace \
             WHERE n.nspname NOT IN ('pg_catalog', 'information_schema', 'anabranch') AND \
             coalesce(p.prosrc, '') || coalesce(pg_catalog.pg_get_function_sqlbody(p.oid), '') ~* '(currval|lastval)') THEN RETURN; END IF;\n\
             CREATE FUNCTION anabranch.numbered_{place}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER \
             SET search_path = pg_catalog, pg_temp AS $numbered$\n\
             BEGIN\n    \
             NEW.{column} := anabranch.numbered({sequence}::regclass, NEW.{column});\n    \
             RETURN NEW;\n\
             END\n\
             $numbered$;\n\
             CREATE TRIGGER anabranch_numbered_{place} BEFORE INSERT ON {schema}.{table} FOR EACH ROW \
             WHEN (pg_catalog.current_setting('anabranch.numbers', true) OPERATOR(pg_catalog.<>) '') \
             EXECUTE FUNCTION anabranch.numbered_{place}();\n\
             END $create$;\n",
            sequence = literal(&sequence.path()),
            schema = quoted(schema),
            table = quoted(table),
        ));
    }
    script
}
