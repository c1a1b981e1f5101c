//! An application's source: what is read of a folder, what is reported, and what is skipped.

use serde_json::Value;

use crate::cli::{anabranch, anabranch_in, refused, scratch, text};

const SCHEMA: &str = "CREATE TABLE account (id bigint PRIMARY KEY, owner text NOT NULL,
    balance bigint NOT NULL CHECK (balance >= 0));
CREATE TABLE visit (id bigint PRIMARY KEY, account_id bigint NOT NULL);
";

const BANK: &str = r#"import queries

def withdraw(conn, account, amount):
    row = conn.execute(queries.BALANCE, (account,)).fetchone()
    if row["balance"] < amount:
        raise ValueError("too little")
    conn.execute("UPDATE account SET balance = balance - ? WHERE id = ?", (amount, account))

def visits(conn, account):
    return conn.execute("SELECT id FROM visit WHERE account_id = ?", (account,)).fetchall()

def sorted_by(conn, column):
    return conn.execute("SELECT id FROM visit ORDER BY " + column).fetchall()
"#;

#[test]
fn a_folder_of_source_is_read() {
    let folder = scratch("programs");
    let put = |name: &str, bytes: &[u8]| {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    };
    put("db/schema.sql", SCHEMA.as_bytes());
    put("db/0001.down.sql", b"DROP TABLE account;");
    put("shop/bank.py", BANK.as_bytes());
    put(
        "shop/queries.py",
        b"BALANCE = 'SELECT balance FROM account WHERE id = ?'\n",
    );
    put(
        "shop/latin.py",
        b"# caf\xe9\nconn.execute('DELETE FROM account')\n",
    );
    put("shop/binary.py", b"conn.execute('DELETE FROM account')\0");
    put(
        "node_modules/x/index.js",
        b"db.query('DELETE FROM account');",
    );
    put("shop/test_bank.py", b"conn.execute('DELETE FROM account')");
    put(".hidden/x.py", b"conn.execute('DELETE FROM account')");
    #[cfg(unix)]
    std::os::unix::fs::symlink(&folder, folder.join("shop/again")).unwrap();

    let ran = anabranch_in(&folder, &["analyze", "."]);
    assert_eq!((ran.code, ran.err.as_str()), (1, ""), "{}", ran.out);
    for told in [
        "withdraw",
        "○ visits",
        "routed by :account",
        "shop/bank.py:13:12: part of this SQL is not known: `column`",
        "shop/latin.py: it is not UTF-8 text: the byte at offset 5 is invalid",
        "shop/binary.py: it is binary",
        "shop/test_bank.py is a test file",
        "Probable invariants",
        "account.balance >= 0 (high confidence): shop/bank.py:5:8: `row[\"balance\"] < amount` in withdraw",
    ] {
        assert!(ran.out.contains(told), "{told}:\n{}", ran.out);
    }
    for not in ["again", "index.js", "hidden", "DELETE"] {
        assert!(!ran.out.contains(not), "{not}:\n{}", ran.out);
    }

    let ran = anabranch_in(
        &folder,
        &[
            "analyze",
            "--format",
            "json",
            "shop",
            "--schema",
            "db/schema.sql",
        ],
    );
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    let probable = &report["probable_invariants"][0];
    assert_eq!(probable["rule"], "account.balance >= 0");
    assert_eq!(probable["transaction"], "withdraw");
    assert_eq!(
        report["skipped"].as_array().unwrap().len(),
        4,
        "{}",
        report["skipped"]
    );
    let ran = anabranch_in(&folder, &["analyze", "--format", "html", "."]);
    assert!(ran.out.contains("<h2>Probable invariants</h2>"));
}

#[test]
fn transactions_in_source_can_be_replayed() {
    let folder = scratch("programs-replayed");
    std::fs::write(folder.join("schema.sql"), SCHEMA).unwrap();
    std::fs::write(
        folder.join("pay.js"),
        "exports.pay = (db, id, n) => db.query('UPDATE account SET balance = balance - $1 WHERE id = $2', [n, id]);\n",
    )
    .unwrap();
    let ran = anabranch(&["replay", text(&folder)]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
    assert!(ran.out.contains("pay"), "{}", ran.out);
}

#[test]
fn too_many_source_files_are_refused() {
    let folder = scratch("programs-many");
    for number in 0..3 {
        std::fs::write(folder.join(format!("{number}.py")), "x = 1\n").unwrap();
    }
    refused(
        &["analyze", text(&folder), "--source-files-max", "2"],
        &["more than 2 files", "--source-files-max"],
    );
    refused(
        &["analyze", text(&folder)],
        &["found no SQL to analyse", "no calls that run SQL"],
    );
}
