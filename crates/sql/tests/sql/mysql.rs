//! MySQL's files: a dump of a small shop and its queries give the same as their PostgreSQL twins; what cannot be
//! translated is skipped.

use anabranch_sql::script::{Script, read};
use anabranch_sql::summary::{
    Comparison, Role, StatementSummary, Term, TransactionSummary, WriteClass,
};
use anabranch_sql::{SourceFile, render};

fn script(texts: &[(&str, &str)]) -> Script {
    let files: Vec<SourceFile> = texts
        .iter()
        .map(|(name, text)| SourceFile::new(*name, *text))
        .collect();
    read(files.clone()).unwrap_or_else(|found| panic!("{}", render(&found, &files)))
}

fn shop() -> Script {
    script(&[
        ("dump.sql", include_str!("mysql/dump.sql")),
        ("queries.sql", include_str!("mysql/queries.sql")),
    ])
}

fn summary<'s>(script: &'s Script, name: &str) -> &'s TransactionSummary {
    let found = script.summaries.iter().find(|s| s.name == name);
    found.unwrap_or_else(|| panic!("{name}: {:#?}", script.skipped))
}

/// A statement without its places.
fn placeless(statement: &StatementSummary) -> String {
    let accesses = statement.accesses.iter().map(|access| {
        format!(
            "{:?} {:?} reads {:?} writes {:?} where {:?} {}",
            access.table,
            access.role,
            access.columns_read,
            access.writes,
            access.conditions,
            access.has_other_conditions
        )
    });
    let accesses: Vec<String> = accesses.collect();
    format!(
        "{:?} {} {}\n{}",
        statement.result,
        statement.may_skip_rows,
        statement.inserts_one,
        accesses.join("\n")
    )
}

#[test]
fn a_dump_gives_the_same_as_its_twin() {
    let mysql = shop();
    let twin = script(&[
        ("schema.sql", include_str!("mysql/twin_schema.sql")),
        ("queries.sql", include_str!("mysql/twin_queries.sql")),
    ]);
    let tables = |script: &Script| {
        let catalog = script.application.catalog();
        let mut shown = Vec::new();
        for (table, schema) in catalog.tables.iter().zip(&catalog.schema.tables) {
            let columns = schema.columns.iter();
            let columns: Vec<String> = columns
                .map(|c| format!("{} {} {}", c.name, c.data_type, c.nullable))
                .collect();
            let checks: Vec<String> = table
                .checks
                .iter()
                .map(|c| format!("{} {}", c.name, c.expression.to_string().replace('"', "")))
                .collect();
            let keys: Vec<String> = table
                .foreign_keys
                .iter()
                .map(|k| {
                    format!(
                        "{} {:?} {:?} {:?}",
                        k.name, k.columns, k.parent, k.on_delete
                    )
                })
                .collect();
            let mut indexes: Vec<String> = schema
                .indexes
                .iter()
                .map(|i| format!("{} {:?} {}", i.name, i.columns, i.unique))
                .collect();
            indexes.sort();
            shown.push(format!(
                "{} {columns:?} {:?} {checks:?} {keys:?} {indexes:?}",
                table.name, schema.primary_key
            ));
        }
        shown
    };
    assert!(twin.skipped.is_empty(), "{:#?}", twin.skipped);
    assert_eq!(tables(&mysql), tables(&twin), "{:#?}", mysql.skipped);
    assert_eq!(mysql.summaries.len(), twin.summaries.len());
    for of_twin in &twin.summaries {
        let of_mysql = summary(&mysql, &of_twin.name);
        assert_eq!(
            of_mysql.unknown, None,
            "{}: {:#?}",
            of_twin.name, mysql.skipped
        );
        let statements =
            |s: &TransactionSummary| s.statements.iter().map(placeless).collect::<Vec<_>>();
        assert_eq!(
            statements(of_mysql),
            statements(of_twin),
            "{}",
            of_twin.name
        );
        let types = |s: &TransactionSummary| {
            s.parameters
                .iter()
                .map(|p| p.1.to_string())
                .collect::<Vec<_>>()
        };
        assert_eq!(types(of_mysql), types(of_twin), "{}", of_twin.name);
    }
    // Only the dump's rows are skipped.
    let told: Vec<&str> = mysql
        .skipped
        .iter()
        .map(|l| l.diagnostic.message.as_str())
        .collect();
    assert_eq!(told, ["this INSERT is part of a dump"]);
}

#[test]
fn places_are_those_of_the_file() {
    let script = shop();
    let files = &script.application.catalog().files;
    let shown = |span: anabranch_sql::Span| {
        let file = &files[usize::from(span.file)];
        (file.line_column(span.start), file.slice(span).to_owned())
    };
    let catalog = script.application.catalog();
    let products = catalog
        .tables
        .iter()
        .find(|t| t.name == "products")
        .expect("it is there");
    let (place, text) = shown(products.span);
    assert_eq!(place, (70, 1));
    assert!(text.starts_with("CREATE TABLE \"products\""), "{text}");
    let line = &summary(&script, "AddLine").statements[0];
    let (place, text) = shown(line.span);
    assert_eq!(place, (14, 1));
    assert!(
        text.contains("KEY UPDATE quantity = quantity + VALUES(quantity"),
        "{text}"
    );
}

#[test]
fn text_is_case_insensitive_unless_its_collation_is_binary() {
    let script = script(&[(
        "a.sql",
        "CREATE TABLE t (
           id int PRIMARY KEY, a varchar(9), b varchar(9) COLLATE utf8mb4_bin,
           n int, at timestamp NULL DEFAULT NULL ON UPDATE CURRENT_TIMESTAMP
         ) ENGINE=InnoDB;
         -- name: one
         UPDATE t SET n = 1 WHERE a = 'x' AND b = 'x';
         -- name: other
         INSERT INTO t (id, a, b) VALUES (?, 'X', 'X');",
    )]);
    let access = &summary(&script, "one").statements[0].accesses[0];
    let conditions: Vec<_> = access
        .conditions
        .iter()
        .map(|c| (c.column.0, c.comparison))
        .collect();
    assert_eq!(conditions, [(2, Comparison::Equal)]);
    assert!(access.has_other_conditions);
    // The timestamp is written, too.
    let written: Vec<_> = access
        .writes
        .iter()
        .map(|w| (w.column.0, w.class.clone()))
        .collect();
    assert_eq!(written[1], (4, WriteClass::Assign(Term::Now)));
    let written = &summary(&script, "other").statements[0].accesses[0].writes;
    let is_told =
        |column: usize| matches!(written[column].class, WriteClass::Assign(Term::Constant(_)));
    assert!(!is_told(1) && is_told(2));
}

#[test]
fn what_cannot_be_translated_is_skipped_and_makes_nothing_safe() {
    let script = script(&[(
        "a.sql",
        "CREATE TABLE `kept` (`id` int NOT NULL, `code` int NOT NULL, `n` int, PRIMARY KEY (`id`), UNIQUE KEY (`code`)) ENGINE=InnoDB;
CREATE TABLE `child` (`id` int PRIMARY KEY, `kept` int, FOREIGN KEY (`kept`) REFERENCES `kept` (`id`));
CREATE TABLE `odd` (`id` int PRIMARY KEY, `j` json, CHECK (`j` > '1'));
CREATE TABLE `part` (`id` int PRIMARY KEY, `a` text, UNIQUE KEY `a` (`a`(10)));
/*!50003 CREATE*/ /*!50017 DEFINER=`root`@`localhost`*/ /*!50003 TRIGGER `t` BEFORE UPDATE ON `child` FOR EACH ROW
SET NEW.kept = 1 */;
DELIMITER ;;
CREATE DEFINER=`root`@`localhost` PROCEDURE `p`(IN a INT)
BEGIN
  DELETE FROM kept WHERE id = a;
  DELETE FROM child;
END ;;
CREATE EVENT `e` ON SCHEDULE EVERY 1 DAY DO DELETE FROM child;;
DELIMITER ;
-- name: several
INSERT INTO kept (id, code) VALUES (?, ?) ON DUPLICATE KEY UPDATE n = 1;
-- name: replaced
REPLACE INTO kept (id, code) VALUES (?, ?);
-- name: fires
UPDATE child SET kept = ? WHERE id = ?;
-- name: fine
REPLACE INTO child (id, kept) VALUES (?, ?);
-- name: plain
UPDATE kept SET n = 1 WHERE id = ?;
",
    )]);
    let unknown: Vec<&str> = script
        .summaries
        .iter()
        .filter(|s| s.unknown.is_some())
        .map(|s| s.name.as_str())
        .collect();
    let mut sorted = unknown.clone();
    sorted.sort_unstable();
    // The trigger of child makes `fine` unknown, too.
    assert_eq!(
        sorted,
        ["e", "fine", "fires", "p", "replaced", "several"],
        "{:#?}",
        script.skipped
    );
    let told: Vec<(u32, &str)> = script
        .skipped
        .iter()
        .map(|left| {
            let span = left.diagnostic.span.expect("it has a place");
            let files = &script.application.catalog().files;
            (files[0].line_column(span.start).0, left.meaning.as_str())
        })
        .collect();
    let lines: Vec<u32> = told.iter().map(|(line, _)| *line).collect();
    assert_eq!(lines, [3, 4, 5, 9, 13, 16, 18], "{told:#?}");
    let p = summary(&script, "p");
    let all_done = p.possible_statements(script.application.catalog());
    let deletes = all_done.iter().flat_map(|s| &s.accesses);
    assert!(deletes.filter(|a| a.role == Role::Delete).count() >= 2);
}

/// A column of a type that the catalog does not have is opaque.
#[test]
fn a_column_of_an_unknown_type_is_opaque_text() {
    let script = script(&[(
        "a.sql",
        "CREATE TABLE `kept` (`id` int PRIMARY KEY, `j` json NOT NULL, `t` time) ENGINE=InnoDB;
CREATE ASSERTION early CHECK (NOT EXISTS (SELECT 1 FROM kept WHERE t > '9:00'));
-- name: put
UPDATE kept SET j = ? WHERE t = '1:00' AND j IS NOT NULL;
",
    )]);
    let [left] = &script.skipped[..] else {
        panic!("{:#?}", script.skipped)
    };
    assert_eq!(
        left.meaning,
        "transactions that write kept are unknown: they may violate it"
    );
    let access = &summary(&script, "put").statements[0].accesses[0];
    let asked: Vec<Comparison> = access.conditions.iter().map(|c| c.comparison).collect();
    assert_eq!(asked, [Comparison::IsNotNull]);
}

/// An UPDATE of several tables that cannot be analysed may write each of them.
#[test]
fn an_update_of_several_tables_writes_them_all() {
    let script = script(&[(
        "a.sql",
        "CREATE TABLE `a` (`id` int PRIMARY KEY, `n` int) ENGINE=InnoDB;
CREATE TABLE `b` (`id` int PRIMARY KEY, `n` int) ENGINE=InnoDB;
-- name: both
UPDATE a, b SET a.n = 1, b.n = 2 WHERE a.id = b.id;
-- name: joined
UPDATE a JOIN b ON a.id = b.id SET b.n = 2;
",
    )]);
    for name in ["both", "joined"] {
        let found = summary(&script, name);
        assert!(found.unknown.is_some(), "{name}");
        let all_done = found.possible_statements(script.application.catalog());
        let accesses = all_done.iter().flat_map(|s| &s.accesses);
        let updated = accesses
            .filter(|a| a.role == Role::Update)
            .map(|a| a.table.0);
        assert_eq!(updated.collect::<Vec<_>>(), [0, 1], "{name}");
    }
}
