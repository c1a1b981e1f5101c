//! The numbers that a transaction by hand has drawn from sequences, as SQL.
//!
//! Such a transaction runs provisionally, and again inside a hold. Its client may have seen the numbers that the first run has
//! drawn (`INSERT … RETURNING id`), so that the second one has to use them again instead of those that it draws.
//! Numbers are not given back by a rollback: the first ones stay the transaction's own.
//!
//! The first run tells its numbers by INFO messages with the SQLSTATE [`NUMBER`], which outlive its rollback, and which its
//! client does not get. The second run is given them before each statement ([`given`]). A value that is not the number that
//! was drawn last for its column was not drawn: it stays.

use super::catalog::Sequence;
use super::{literal, quoted};

/// The SQLSTATE of the messages that tell a number.
pub const NUMBER: &str = "AB001";

/// What has a transaction tell its numbers.
pub const RECORD: &str = "SET LOCAL anabranch.numbers = 'record'";

/// The statement that gives numbers to the statement behind it; without any, those that it draws stay.
pub fn given(numbers: &[i64]) -> String {
    let numbers: Vec<String> = numbers.iter().map(i64::to_string).collect();
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
        RAISE INFO USING MESSAGE = value::text, ERRCODE = 'AB001';\n        \
        RETURN value;\n    \
        END IF;\n    \
        first := split_part(numbers, ' ', 2);\n    \
        IF first = '' THEN RETURN value; END IF;\n    \
        PERFORM set_config('anabranch.numbers', 'given' || substr(numbers, 7 + length(first)), true);\n    \
        RETURN first::bigint;\n\
        END\n\
        $numbered$;\n"
        .to_owned();
    for (place, sequence) in sequences.iter().enumerate() {
        let Some((schema, table, column)) = &sequence.owner else {
            continue;
        };
        let column = quoted(column);
        script.push_str(&format!(
            "CREATE FUNCTION anabranch.numbered_{place}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER \
             SET search_path = pg_catalog, pg_temp AS $numbered$\n\
             BEGIN\n    \
             NEW.{column} := anabranch.numbered({sequence}::regclass, NEW.{column});\n    \
             RETURN NEW;\n\
             END\n\
             $numbered$;\n\
             CREATE TRIGGER anabranch_numbered_{place} BEFORE INSERT ON {schema}.{table} FOR EACH ROW \
             WHEN (pg_catalog.current_setting('anabranch.numbers', true) OPERATOR(pg_catalog.<>) '') \
             EXECUTE FUNCTION anabranch.numbered_{place}();\n",
            sequence = literal(&sequence.path()),
            schema = quoted(schema),
            table = quoted(table),
        ));
    }
    script
}
