//! The same with compound statements: a WITH with statements that change data, and MERGE.

use super::*;

/// A statement that changes data, without its `;`.
fn change(random: &mut Random, body: &mut Body, schema: &Schema) -> String {
    let table = random.below(3) as usize;
    let name = TABLES[table];
    match random.below(4) {
        0 => {
            let set = assignment(random, body);
            let rows = filter(random, body, schema, table);
            format!("UPDATE {name} SET {set} WHERE {rows}")
        }
        1 => format!(
            "DELETE FROM {name} WHERE {}",
            filter(random, body, schema, table)
        ),
        _ => {
            let text = insert(random, body, schema, table);
            text.trim_end_matches(';').to_owned()
        }
    }
}

/// The first columns and values of a new row of a table, as far as they are not drawn.
fn chosen(random: &mut Random, body: &mut Body, schema: &Schema, table: usize) -> [String; 2] {
    match schema.keys[table] {
        Keys::Chosen => [
            "id, ".into(),
            format!("{}, ", body.key(random, schema, table)),
        ],
        _ => Default::default(),
    }
}

fn compound(random: &mut Random, body: &mut Body, schema: &Schema) -> String {
    let table = 1 + random.below(2) as usize;
    let (name, up, link) = (TABLES[table], TABLES[table - 1], UP[table]);
    let column = random.of(&["a", "b"]);
    let amount = random.of(&["1", "p_n"]);
    let compound = match random.below(7) {
        // Both see the rows as they were.
        0 | 1 => {
            let first = change(random, body, schema);
            let second = change(random, body, schema);
            format!("WITH one AS ({first}) {second};")
        }
        2 => {
            let rows = filter(random, body, schema, table);
            let set = random.of(&["- gone.a", "- 1", "+ gone.b"]);
            format!(
                "WITH gone AS (DELETE FROM {name} WHERE {rows} RETURNING {link}, a, b) \
                 UPDATE {up} SET {column} = {up}.{column} {set} FROM gone WHERE {up}.id = gone.{link};"
            )
        }
        3 => {
            let rows = filter(random, body, schema, table);
            format!(
                "WITH changed AS (UPDATE {name} SET a = a + {amount} WHERE {rows} RETURNING {link}) \
                 UPDATE {up} SET {column} = {up}.{column} + {amount} FROM changed WHERE {up}.id = changed.{link};"
            )
        }
        4 => {
            let new = insert(random, body, schema, table - 1);
            let new = new.trim_end_matches(';');
            let [columns, values] = chosen(random, body, schema, table);
            format!(
                "WITH new AS ({new} RETURNING id) \
                 INSERT INTO {name} ({columns}{link}, a, b) SELECT {values}new.id, {amount}, 0 FROM new;"
            )
        }
        5 => {
            let group = body.key(random, schema, table - 1);
            let [columns, values] = chosen(random, body, schema, table);
            format!(
                "WITH counted AS (UPDATE {up} SET {column} = {column} + {amount} WHERE id = {group} RETURNING id) \
                 INSERT INTO {name} ({columns}{link}, a, b) SELECT {values}counted.id, {amount}, 0 FROM counted;"
            )
        }
        _ => {
            let key = body.key(random, schema, table);
            let group = body.key(random, schema, table - 1);
            let found = match random.below(4) {
                0 => "WHEN MATCHED THEN DELETE".to_owned(),
                1 => {
                    format!("WHEN MATCHED AND {name}.a > 0 THEN UPDATE SET a = {name}.a - {amount}")
                }
                2 => format!(
                    "WHEN MATCHED AND {name}.c IS NULL THEN UPDATE SET c = 1 WHEN MATCHED THEN DELETE"
                ),
                _ => format!("WHEN MATCHED THEN UPDATE SET {column} = {amount}"),
            };
            let drawn = schema.keys[table] != Keys::Chosen && random.one_in(2);
            let (columns, values) = match drawn {
                true => ("", ""),
                false => ("id, ", "s.k, "),
            };
            let missing = random.of(&["", " AND s.n > 0"]);
            format!(
                "MERGE INTO {name} USING (SELECT {key} AS k, {amount} AS n) AS s ON {name}.id = s.k {found} \
                 WHEN NOT MATCHED{missing} THEN INSERT ({columns}{link}, a, b) VALUES ({values}{group}, s.n, 0);"
            )
        }
    };
    if compound.contains("p_n") && !body.parameters.iter().any(|(name, _)| name == "p_n") {
        body.parameters.push(("p_n".into(), "integer"));
    }
    compound
}

/// An application as SQL.
fn made_up_compound(seed: u64) -> String {
    let mut random = Random::new(seed ^ 0x5eed_c0de);
    let schema = schema(&mut random);
    let mut text = schema.text.clone();
    for number in 0..1 + random.below(3) {
        text += &procedure_of(
            &mut random,
            &schema,
            number,
            |random, body, schema| match random.one_in(3) {
                true => statement(random, body, schema, 2),
                false => compound(random, body, schema),
            },
        );
    }
    text
}

#[test]
fn no_plan_of_compound_statements_is_broken() {
    if let Some(tally) = attacked_as_usual(0..1_000, made_up_compound) {
        assert!(tally.refused * 5 < tally.tried, "{tally:#?}");
        assert!(tally.free > 50 && tally.guarded > 100, "{tally:#?}");
    }
}
