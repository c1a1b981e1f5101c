//! Random statements from a seed, nearly all of them valid.
//!
//! The dialect determines the answer of each statement. Statements whose answer PostgreSQL leaves open (the order
//! of rows, which of several equal values is returned, which of several errors comes first) are not drawn, or
//! [`Drawn`] says how to compare the answers.

mod change;
mod expression;
pub(crate) mod procedure;
mod query;
mod schema;

use fastrand::Rng;

pub(crate) use schema::{SCHEMA, TABLES};

/// One statement, and how to compare its answers.
#[derive(Clone, Debug)]
pub(crate) struct Drawn {
    /// The statement, without a semicolon.
    pub(crate) text: String,
    /// Whether the order of its rows is determined.
    pub(crate) ordered: bool,
    /// Whether any of several equal values may be returned: `1.5` and `1.50` count as equal.
    pub(crate) scale_open: bool,
}

/// Draws statements.
#[derive(Clone, Debug)]
pub(crate) struct Generator {
    rng: Rng,
    /// Aliases given so far in this statement.
    aliases: u32,
    scale_open: bool,
}

impl Generator {
    /// A generator; one seed gives the same statements everywhere.
    pub(crate) fn new(seed: u64) -> Generator {
        Generator {
            rng: Rng::with_seed(seed),
            aliases: 0,
            scale_open: false,
        }
    }

    /// The next statement.
    pub(crate) fn draw(&mut self) -> Drawn {
        self.aliases = 0;
        self.scale_open = false;
        let (text, ordered) = match self.rng.u32(0..100) {
            0..50 => self.query(),
            50..56 => (self.risk(), false),
            56..75 => (self.insert(), false),
            75..89 => (self.update(), false),
            _ => (self.delete(), false),
        };
        Drawn {
            text,
            ordered,
            scale_open: self.scale_open,
        }
    }

    /// Statements that fill the tables to begin with.
    pub(crate) fn fill(&mut self) -> Vec<Drawn> {
        let mut statements = Vec::new();
        for (table, rows) in [(0, 25), (1, 40), (2, 50), (3, 50), (4, 30), (5, 20)] {
            for _ in 0..rows {
                let text = self.insert_row(&TABLES[table]);
                statements.push(Drawn {
                    text,
                    ordered: false,
                    scale_open: false,
                });
            }
        }
        statements
    }

    fn one_in(&mut self, chances: u32) -> bool {
        self.rng.u32(0..chances) == 0
    }

    fn pick<'t, T: ?Sized>(&mut self, from: &[&'t T]) -> &'t T {
        from[self.rng.usize(0..from.len())]
    }

    fn alias(&mut self) -> String {
        self.aliases += 1;
        format!("t{}", self.aliases)
    }
}
