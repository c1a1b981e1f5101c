//! Which reads are a subset of what is written together (ramp.txt, §3.4), and which are not.

use anabranch_analysis::plan::{Plan, ReadSubset};
use anabranch_sql::source::SourceFile;

use crate::support::{Application, entry};

const SCHEMA: &str = "
    CREATE TABLE friends (a integer, b integer, since bigint NOT NULL, PRIMARY KEY (a, b));
    CREATE TABLE degree (a integer PRIMARY KEY, friends bigint NOT NULL);
    CREATE TABLE log (id uuid PRIMARY KEY, what text);
";

/// Both directions of a friendship are written together.
const BEFRIEND: &str = "
    CREATE PROCEDURE befriend(p integer, q integer, t bigint) LANGUAGE SQL BEGIN ATOMIC
        UPDATE friends SET since = t WHERE a = p AND b = q;
        UPDATE friends SET since = t WHERE a = q AND b = p;
    END;
";

/// The paper's example: \"other users should never see that Sam is a friend of Mary but Mary is not a
/// friend of Sam\".
const ARE_FRIENDS: &str = "
    CREATE FUNCTION are_friends(x integer, y integer, OUT one bigint, OUT other bigint)
    LANGUAGE plpgsql STABLE AS $$
    BEGIN
        SELECT since INTO one FROM friends WHERE a = x AND b = y;
        SELECT since INTO other FROM friends WHERE a = y AND b = x;
    END; $$;
";

fn plan(procedures: &[&str]) -> Plan {
    let text = format!("{SCHEMA}{}", procedures.concat());
    Application::compiled(vec![SourceFile::new("friends.sql", text)]).plan()
}

fn subset(procedures: &[&str], name: &str) -> Option<ReadSubset> {
    entry(&plan(procedures), name).read_subset.clone()
}

#[test]
fn reading_what_is_written_together_is_serializable() {
    let procedures = [BEFRIEND, ARE_FRIENDS];
    assert_eq!(
        subset(&procedures, "are_friends"),
        Some(ReadSubset::Serializable)
    );
    assert_eq!(subset(&procedures, "befriend"), None, "it does not read");
    // A part of it is a subset, too, also beside tables that no type writes.
    let one = "
        CREATE FUNCTION is_friend(x integer, y integer, OUT one bigint) LANGUAGE plpgsql STABLE AS $$
        DECLARE n bigint;
        BEGIN
            SELECT since INTO one FROM friends WHERE a = x AND b = y;
            SELECT friends INTO n FROM degree WHERE a = y;
        END; $$;";
    let subset = subset(&[BEFRIEND, one], "is_friend");
    assert_eq!(subset, Some(ReadSubset::Serializable));
}

/// History (7): a reader of two writers may see the one without the other.
#[test]
fn reading_of_two_writers_is_not() {
    let two = "
        CREATE FUNCTION two(x integer, y integer, z integer, OUT one bigint, OUT other bigint)
        LANGUAGE plpgsql STABLE AS $$
        BEGIN
            SELECT since INTO one FROM friends WHERE a = x AND b = y;
            SELECT since INTO other FROM friends WHERE a = x AND b = z;
        END; $$;";
    assert_eq!(subset(&[BEFRIEND, two], "two"), None);
    // Nor has a type that shares tables with its writers: cycles may go through it.
    let beside = subset(&[BEFRIEND, ARE_FRIENDS, two], "are_friends");
    assert_eq!(beside, Some(ReadSubset::Beside("two".into())));
}

/// Each writer that omits a row, may omit one, or reads removes the property.
#[test]
fn a_writer_that_may_omit_a_row_removes_the_property() {
    let writers = [
        // One of two.
        "CREATE PROCEDURE w(p integer, q integer, t bigint) LANGUAGE SQL BEGIN ATOMIC
            UPDATE friends SET since = t WHERE a = p AND b = q;
         END;",
        // The other only sometimes.
        "CREATE PROCEDURE w(p integer, q integer, t bigint) LANGUAGE plpgsql AS $$ BEGIN
            UPDATE friends SET since = t WHERE a = p AND b = q;
            IF t > 0 THEN UPDATE friends SET since = t WHERE a = q AND b = p; END IF;
         END; $$;",
        // The row may have been deleted before.
        "CREATE PROCEDURE w(p integer, q integer, t bigint) LANGUAGE plpgsql AS $$ BEGIN
            UPDATE friends SET since = t WHERE a = p AND b = q;
            IF t > 0 THEN RETURN; END IF;
            UPDATE friends SET since = t WHERE a = q AND b = p;
         END; $$;",
        // It depends on existing rows.
        "CREATE PROCEDURE w(p integer, q integer, t bigint) LANGUAGE SQL BEGIN ATOMIC
            UPDATE friends SET since = since + t WHERE a = p AND b = q;
            UPDATE friends SET since = since + t WHERE a = q AND b = p;
         END;",
        "CREATE PROCEDURE w(p integer, q integer, t bigint) LANGUAGE SQL BEGIN ATOMIC
            UPDATE friends SET since = t WHERE a = p AND b = q AND since < t;
            UPDATE friends SET since = t WHERE a = q AND b = p AND since < t;
         END;",
        // An UPDATE of a missing row writes nothing.
        "CREATE PROCEDURE w(p integer, q integer, t bigint) LANGUAGE SQL BEGIN ATOMIC
            INSERT INTO friends VALUES (p, q, t);
            INSERT INTO friends VALUES (q, p, t);
         END;",
        "CREATE PROCEDURE w(p integer, q integer) LANGUAGE SQL BEGIN ATOMIC
            DELETE FROM friends WHERE a = p AND b = q;
            DELETE FROM friends WHERE a = q AND b = p;
         END;",
    ];
    for writer in writers {
        let found = subset(&[BEFRIEND, ARE_FRIENDS, writer], "are_friends");
        assert_eq!(found, None, "{writer}");
    }
    // A type that does both, in whatever way, does not.
    let both = "
        CREATE PROCEDURE w(p integer, q integer, t bigint) LANGUAGE plpgsql AS $$ BEGIN
            IF t < 0 THEN RAISE EXCEPTION 'no'; END IF;
            UPDATE friends SET since = t WHERE a = q AND b = p;
            UPDATE friends SET since = t WHERE a = p AND b = q;
        END; $$;";
    let found = subset(&[BEFRIEND, ARE_FRIENDS, both], "are_friends");
    assert_eq!(found, Some(ReadSubset::Serializable));
}

/// Rows that are only ever inserted, both together.
#[test]
fn rows_that_are_inserted_together_are_read_together() {
    let insert = "
        CREATE PROCEDURE w(p integer, q integer, t bigint) LANGUAGE SQL BEGIN ATOMIC
            INSERT INTO friends VALUES (p, q, t);
            INSERT INTO friends VALUES (q, p, t);
        END;";
    let found = subset(&[insert, ARE_FRIENDS], "are_friends");
    assert_eq!(found, Some(ReadSubset::Serializable));
    let some = "
        CREATE PROCEDURE w(p integer, q integer, t bigint) LANGUAGE SQL BEGIN ATOMIC
            INSERT INTO friends VALUES (p, q, t) ON CONFLICT DO NOTHING;
            INSERT INTO friends VALUES (q, p, t) ON CONFLICT DO NOTHING;
        END;";
    assert_eq!(subset(&[some, ARE_FRIENDS], "are_friends"), None);
}

/// A writer that reads somewhere does not satisfy the theorem, and ranges are no items.
#[test]
fn a_type_that_reads_and_writes_removes_the_property() {
    let reads = "
        CREATE PROCEDURE w(p integer, q integer) LANGUAGE plpgsql AS $$
        DECLARE v bigint;
        BEGIN
            SELECT since INTO v FROM friends WHERE a = p AND b = p;
            UPDATE friends SET since = v WHERE a = p AND b = q;
            UPDATE friends SET since = v WHERE a = q AND b = p;
        END; $$;";
    assert_eq!(subset(&[reads, ARE_FRIENDS], "are_friends"), None);
    let range = "
        CREATE FUNCTION all_of(x integer, OUT n bigint) LANGUAGE plpgsql STABLE AS $$
        BEGIN SELECT max(since) INTO n FROM friends WHERE a = x; END; $$;";
    assert_eq!(subset(&[BEFRIEND, range], "all_of"), None);
    // Types that share nothing with it do not matter.
    let apart = "
        CREATE PROCEDURE noted(i uuid) LANGUAGE plpgsql AS $$
        DECLARE v text;
        BEGIN
            SELECT what INTO v FROM log WHERE id = i;
            UPDATE log SET what = v || '!' WHERE id = i;
        END; $$;";
    let found = subset(&[BEFRIEND, ARE_FRIENDS, apart], "are_friends");
    assert_eq!(found, Some(ReadSubset::Serializable));
}

#[test]
fn reports_say_so() {
    let text = format!("{SCHEMA}{BEFRIEND}{ARE_FRIENDS}");
    let application = Application::compiled(vec![SourceFile::new("friends.sql", text)]);
    let plan = application.plan();
    let told =
        anabranch_analysis::report::text::render(&plan, &application.catalog, &application.types);
    let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
    let words = "what it reads is always written together: serializable [rsiw]";
    assert!(told.contains(words), "{told}");
}
