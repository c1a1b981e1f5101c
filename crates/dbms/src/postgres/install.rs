//! What the belt installs in a server's database, as SQL: the schema `anabranch`.
//!
//! Everything durable of the belt is in these tables, in the transactions that it belongs to:
//!
//! | table | content |
//! |---|---|
//! | `server` | which server of which ring this is, which servers own which slots of keys, and the digest of the schema that the installation was made for |
//! | `hold` | the epoch, the promised epoch, the last hops received and passed, the token |
//! | `fence` | empty; operations of a hold share its lock, and what opens or ends a hold locks them out |
//! | `outbox` | what each global operation changed, with its hop and the number that it drew before its COMMIT |
//! | `applied` | by origin the last number of its changes that was applied here |
//! | `types` | the transaction types that the installation was made for: class, and the parameters that route them |
//!
//! For people there are the views `ring` and `lag`.

use super::capture::{self, ReplicatedTable};
use super::catalog::{self, Sequence};
use super::{apply, batch, literal, numbers, quoted};
use crate::slots::{self, Owners};

/// What is installed on one server of a ring.
#[derive(Clone, Debug)]
pub struct Part {
    /// A text that is the same on all servers of the ring, and on no other ring's.
    pub ring: String,
    /// The server's name.
    pub name: String,
    /// Its place among the servers, from 0.
    pub place: u16,
    /// The number of servers.
    pub servers: u16,
    /// How many residues generated keys have: a key's residue tells which server made it. At least the number of
    /// servers.
    pub slots: u16,
    /// By slot the place of the server that the keys belong to.
    pub owners: Owners,
    /// The tables that are replicated.
    pub tables: Vec<ReplicatedTable>,
    /// The sequences whose numbers must differ between servers.
    pub sequences: Vec<Sequence>,
    /// The role of the middleware: it keeps the belt's tables, and applies operations of other servers.
    pub middleware: Option<String>,
    /// The roles of applications, which may then run operations.
    pub applications: Vec<String>,
    /// The digest of the schema.
    pub digest: String,
    /// The transaction types that it is made for.
    pub types: Vec<InstalledType>,
}

/// A transaction type that a ring is made for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct InstalledType {
    /// Its name.
    pub name: String,
    /// How its operations are coordinated.
    pub class: String,
    /// The names of the parameters that route them.
    pub parameters: Vec<String>,
}

/// Reads the transaction types that a ring was installed for, in the order of their names.
///
/// # Errors
/// When they cannot be read.
pub fn types(
    client: &mut impl postgres::GenericClient,
) -> Result<Vec<InstalledType>, postgres::Error> {
    let rows = client.query("SELECT name, class, parameters FROM anabranch.types", &[])?;
    let types = rows.iter().map(|row| InstalledType {
        name: row.get(0),
        class: row.get(1),
        parameters: row.get(2),
    });
    let mut types: Vec<InstalledType> = types.collect();
    types.sort();
    Ok(types)
}

/// The names of the tables in the schema `public` whose changes the belt captures.
///
/// # Errors
/// When the catalogs cannot be read.
pub fn captured(client: &mut impl postgres::GenericClient) -> Result<Vec<String>, postgres::Error> {
    let tables = captured_tables(client)?.into_iter();
    let public = tables.filter(|(schema, _)| schema == "public");
    Ok(public.map(|(_, name)| name).collect())
}

/// The schemas and names of all tables whose changes the belt captures.
///
/// # Errors
/// When the catalogs cannot be read.
pub fn captured_tables(
    client: &mut impl postgres::GenericClient,
) -> Result<Vec<(String, String)>, postgres::Error> {
    let rows = client.query(
        "SELECT n.nspname::text, c.relname::text FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid \
         JOIN pg_namespace n ON n.oid = c.relnamespace WHERE t.tgname = 'anabranch_insert'",
        &[],
    )?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
}

/// Whether a part captures the same tables, under the same numbers, as a server that has the belt. Servers tell each other of a
/// table's rows by its number, so those of a ring must agree.
///
/// # Errors
/// When the catalogs cannot be read.
pub fn captures_as(
    client: &mut impl postgres::GenericClient,
    part: &Part,
) -> Result<bool, postgres::Error> {
    let rows = client.query(
        "SELECT n.nspname::text, c.relname::text, p.proname::text FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid \
         JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_proc p ON p.oid = t.tgfoid WHERE t.tgname = 'anabranch_insert'",
        &[],
    )?;
    let there = rows.iter().map(|row| (row.get(0), row.get(1), row.get(2)));
    let there: std::collections::BTreeSet<(String, String, String)> = there.collect();
    let here = part.tables.iter().map(|of| {
        let (schema, name) = (of.table.schema.clone(), of.table.name.clone());
        (schema, name, format!("insert_{}", of.number))
    });
    Ok(there == here.collect())
}

/// The views for people. What the ring waits for the middleware knows; it says so by a setting, before a statement that reads
/// the view.
const VIEWS: &str = "CREATE VIEW anabranch.ring AS SELECT m.name, m.place - 1 AS place, m.place - 1 = s.place AS is_own, \
    m.place - 1 = ANY (h.members) AS is_member, CASE WHEN m.place - 1 = s.place THEN h.received END AS hop, \
    CASE WHEN m.place - 1 = s.place THEN h.passed < h.received END AS has_token, \
    CASE WHEN m.place - 1 = s.place THEN nullif(current_setting('anabranch.waits_for', true), '') END AS waits_for \
    FROM anabranch.server s, anabranch.hold h, \
    unnest(string_to_array(s.ring, ',')) WITH ORDINALITY AS m(name, place);\n\
    CREATE VIEW anabranch.lag AS SELECT m.name, CASE WHEN m.place - 1 = s.place \
    THEN (SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM anabranch.number) ELSE coalesce(a.number, 0) END AS applied, \
    CASE WHEN m.place - 1 = s.place THEN (SELECT count(*) FROM anabranch.outbox) END AS not_everywhere \
    FROM anabranch.server s CROSS JOIN unnest(string_to_array(s.ring, ',')) WITH ORDINALITY AS m(name, place) \
    LEFT JOIN anabranch.applied a ON a.origin = m.place - 1;\n";

impl Part {
    /// What is installed on the server with number `place` of so many, as the tables and sequences of its database say.
    /// `is_whole` says of each table whether local operations never write it, or nothing if it is not replicated.
    /// Roles and the digest stay empty.
    ///
    /// # Errors
    /// When the catalogs cannot be read.
    pub fn of_database(
        client: &mut impl postgres::GenericClient,
        (ring, name): (&str, &str),
        (place, servers): (u16, u16),
        slots: u16,
        is_whole: impl Fn(&str) -> Option<bool>,
    ) -> Result<Part, postgres::Error> {
        let mut tables = Vec::new();
        for table in catalog::tables(client)? {
            if let Some(is_whole) = is_whole(&table.name) {
                tables.push(ReplicatedTable {
                    number: tables.len() as i16 + 1,
                    table,
                    is_whole,
                });
            }
        }
        Ok(Part {
            ring: ring.to_owned(),
            name: name.to_owned(),
            place,
            servers,
            slots,
            owners: slots::initial(slots, servers),
            tables,
            sequences: catalog::sequences(client)?,
            middleware: None,
            applications: Vec::new(),
            digest: String::new(),
            types: Vec::new(),
        })
    }

    /// The statements that install it, for one transaction.
    pub fn script(&self) -> String {
        let mut script = format!(
            "CREATE SCHEMA anabranch;\n\
             CREATE TABLE anabranch.server (ring text NOT NULL, name text NOT NULL, place smallint NOT NULL, \
             servers smallint NOT NULL, slots smallint NOT NULL, digest text NOT NULL, owners smallint[] NOT NULL);\n\
             INSERT INTO anabranch.server VALUES ({ring}, {name}, {place}, {servers}, {slots}, {digest}, {owners});\n\
             CREATE TABLE anabranch.hold (epoch bigint NOT NULL, epoch_server smallint NOT NULL, promised bigint NOT NULL, \
             promised_server smallint NOT NULL, members smallint[] NOT NULL, received bigint NOT NULL, passed bigint NOT NULL, \
             token bytea);\n\
             INSERT INTO anabranch.hold SELECT 0, 0, 0, 0, array_agg(s), {received}, 0 FROM generate_series(0, {last}) s;\n\
             CREATE TABLE anabranch.fence ();\n\
             CREATE SEQUENCE anabranch.number;\n\
             CREATE TABLE anabranch.outbox (number bigint PRIMARY KEY, hop bigint NOT NULL, relations smallint[] NOT NULL, \
             kinds \"char\"[] NOT NULL, columns varbit[] NOT NULL, images text[] NOT NULL);\n\
             CREATE INDEX outbox_hop ON anabranch.outbox (hop);\n\
             CREATE TABLE anabranch.applied (origin smallint PRIMARY KEY, number bigint NOT NULL);\n\
             CREATE TABLE anabranch.types (name text PRIMARY KEY, class text NOT NULL, parameters text[] NOT NULL);\n\
             {VIEWS}",
            ring = literal(&self.ring),
            name = literal(&self.name),
            place = self.place,
            servers = self.servers,
            slots = self.slots,
            digest = literal(&self.digest),
            owners = literal(&owners_text(&self.owners)),
            last = self.servers.saturating_sub(1),
            // The first server begins with the token.
            received = u16::from(self.place == 0),
        );
        for of in &self.types {
            let parameters: Vec<String> = of.parameters.iter().map(|p| literal(p)).collect();
            script.push_str(&format!(
                "INSERT INTO anabranch.types VALUES ({}, {}, ARRAY[{}]::text[]);\n",
                literal(&of.name),
                literal(&of.class),
                parameters.join(", ")
            ));
        }
        for table in &self.tables {
            script.push_str(&table.capture());
            script.push_str(&table.apply());
        }
        script.push_str(&capture::seal(&self.tables));
        script.push_str(&apply::apply(&self.tables));
        script.push_str(&batch::keys(&self.tables));
        script.push_str(&numbers::triggers(&self.sequences));
        // Functions are open to every role unless that is taken back.
        script.push_str("REVOKE ALL ON ALL FUNCTIONS IN SCHEMA anabranch FROM PUBLIC;\n");
        for role in self.applications.iter().chain(&self.middleware) {
            script.push_str(&application_grants(role));
        }
        if let Some(role) = &self.middleware {
            script.push_str(&middleware_grants(role));
        }
        for sequence in &self.sequences {
            script.push_str(&self.stride(sequence));
        }
        script
    }

    /// Gives a sequence numbers whose residue modulo `slots` is this server's place.
    fn stride(&self, sequence: &Sequence) -> String {
        let next = next_in_stride(
            sequence.last.unwrap_or(0),
            i64::from(self.slots),
            i64::from(self.place),
        );
        format!(
            "ALTER SEQUENCE {} INCREMENT BY {} RESTART WITH {next};\n",
            sequence.path(),
            self.slots
        )
    }
}

/// The owners as PostgreSQL reads an array.
pub(super) fn owners_text(owners: &[u16]) -> String {
    let places: Vec<String> = owners.iter().map(u16::to_string).collect();
    format!("{{{}}}", places.join(","))
}

/// The first number after `last` with the residue `place` modulo `slots`.
fn next_in_stride(last: i64, slots: i64, place: i64) -> i64 {
    last + 1 + (place - last - 1).rem_euclid(slots)
}

/// What a role needs to run global operations. It may lock the table that is a lock and has no columns.
fn application_grants(role: &str) -> String {
    let role = quoted(role);
    format!(
        "GRANT USAGE ON SCHEMA anabranch TO {role};\n\
         GRANT UPDATE ON anabranch.fence TO {role};\n\
         GRANT SELECT ON anabranch.types, anabranch.ring, anabranch.lag TO {role};\n\
         GRANT EXECUTE ON FUNCTION anabranch.prepare(), anabranch.enter(bigint), anabranch.settle(), anabranch.seal() TO {role};\n"
    )
}

/// What the middleware needs beyond that. `session_replication_role` is granted apart, since that is not a matter of one
/// database.
fn middleware_grants(role: &str) -> String {
    let role = quoted(role);
    format!(
        "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA anabranch TO {role};\n\
         GRANT EXECUTE ON FUNCTION anabranch.apply(smallint[], \"char\"[], varbit[], text[]) TO {role};\n"
    )
}

/// The statements that take everything away again, for one transaction. Sequences go on in steps of 1 from the largest
/// number that `last` has for them.
pub fn removal(sequences: &[(Sequence, i64)]) -> String {
    let mut script = String::from("DROP SCHEMA IF EXISTS anabranch CASCADE;\n");
    for (sequence, last) in sequences {
        script.push_str(&format!(
            "ALTER SEQUENCE {} INCREMENT BY 1 RESTART WITH {};\n",
            sequence.path(),
            last + 1
        ));
    }
    script
}

/// Whether the belt is installed in a database.
///
/// # Errors
/// When the catalogs cannot be read.
pub fn is_installed(client: &mut impl postgres::GenericClient) -> Result<bool, postgres::Error> {
    let row = client.query_one("SELECT to_regclass('anabranch.hold') IS NOT NULL", &[])?;
    Ok(row.get(0))
}

/// The differences between the shapes of two databases, a line each, at most `max`.
pub fn differences(
    one: &[(String, String)],
    other: &[(String, String)],
    names: (&str, &str),
    max: usize,
) -> Vec<String> {
    let find = |shape: &[(String, String)], name: &str| {
        let found = shape.iter().find(|(n, _)| n == name);
        found.map(|(_, text)| text.clone())
    };
    let mut lines = Vec::new();
    for (name, text) in one {
        match find(other, name) {
            None => lines.push(format!("{name}: on {} only", names.0)),
            Some(theirs) if theirs != *text => lines.push(format!(
                "{name}: on {} `{text}`, on {} `{theirs}`",
                names.0, names.1
            )),
            Some(_) => {}
        }
    }
    for (name, _) in other {
        if find(one, name).is_none() {
            lines.push(format!("{name}: on {} only", names.1));
        }
    }
    let more = lines.len().saturating_sub(max);
    lines.truncate(max);
    if more > 0 {
        lines.push(format!("and {more} more"));
    }
    lines
}

/// Reads the shape of a database and its digest.
///
/// # Errors
/// When the catalogs cannot be read.
pub fn shape(
    client: &mut impl postgres::GenericClient,
) -> Result<(Vec<(String, String)>, String), postgres::Error> {
    let shape = catalog::shape(client)?;
    let texts: Vec<&str> = shape
        .iter()
        .flat_map(|(name, text)| [name.as_str(), text.as_str()])
        .collect();
    let digest = client.query_one("SELECT md5($1::text[]::text)", &[&texts])?;
    let digest: String = digest.get(0);
    Ok((shape, digest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_residue_of_their_server() {
        for last in [0, 1, 15, 16, 17, 1_000] {
            for place in 0..16 {
                let next = next_in_stride(last, 16, place);
                assert!(next > last && next <= last + 16, "{last} {place} {next}");
                assert_eq!(next.rem_euclid(16), place);
            }
        }
    }
}
