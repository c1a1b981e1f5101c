//! Programs that declare their own tables: mixed texts, and migrations with their reversal.

use anabranch_sql::SourceFile;

use crate::support::{analysed_files, told};

#[test]
fn a_text_that_declares_and_runs_does_both() {
    let program = r#"
package x

func up(tx *sql.Tx) error {
	text := `
		-- All that there is; for now.
		CREATE TABLE a (id int PRIMARY KEY, n int NOT NULL CHECK (n >= 0));
		INSERT INTO a VALUES (1, 2);
		-- More of it.
		ALTER TABLE a ADD COLUMN m int DEFAULT 3;
		/* ; */ UPDATE a SET m = 0;
	`
	_, err := tx.Exec(text)
	return err
}

func named(tx *sql.Tx, name string) error {
	_, err := tx.Exec(`CREATE TABLE b (id int PRIMARY KEY); INSERT INTO ` + name + ` VALUES (1)`)
	return err
}

func take(tx *sql.Tx, id int) error {
	_, err := tx.Exec(`UPDATE a SET n = n - 1, m = 2 WHERE id = $1`, id)
	return err
}
"#;
    let programs = vec![SourceFile::new("m.go", program)];
    let (program, script) = analysed_files(Vec::new(), programs);
    // The part beside an unknown name is reported at its own position, too.
    let expected = "m.go:18
  ! no call site found for this SQL
named
  ! the SQL that tx.Exec() runs is not known
up
  INSERT INTO a VALUES (1, 2)
  /* ; */ UPDATE a SET m = 0
take
  UPDATE a SET n = n - 1, m = 2 WHERE id = <:id>
";
    let mut found: Vec<String> = told(&program)
        .split_inclusive('\n')
        .map(str::to_owned)
        .collect();
    let mut expected: Vec<String> = expected.split_inclusive('\n').map(str::to_owned).collect();
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
    let catalog = script.application.catalog();
    let [table] = &catalog.schema.tables[..] else {
        panic!("{:?}", catalog.schema.tables)
    };
    assert_eq!(
        (table.columns.len(), catalog.tables[0].checks.len()),
        (3, 1)
    );
    let unknown = script.summaries.iter().filter(|s| s.unknown.is_some());
    let unknown: Vec<&str> = unknown.map(|s| s.name.as_str()).collect();
    assert_eq!(unknown, ["named", "m.go:18"]);
}

/// A constraint that only the reversal drops stays declared.
#[test]
fn what_leads_back_declares_nothing() {
    let program = r#"
def upgrade():
    op.execute("CREATE TABLE a (id int PRIMARY KEY, n int)")
    op.execute("ALTER TABLE a ADD CONSTRAINT positive CHECK (n >= 0)")

def downgrade():
    op.execute("ALTER TABLE a DROP CONSTRAINT positive")
    op.execute("ALTER TABLE a DROP COLUMN n")
"#;
    let programs = vec![SourceFile::new("m.py", program)];
    let (_, script) = analysed_files(Vec::new(), programs);
    let catalog = script.application.catalog();
    let table = (&catalog.schema.tables[0], &catalog.tables[0]);
    assert_eq!((table.0.columns.len(), table.1.checks.len()), (2, 1));
}
