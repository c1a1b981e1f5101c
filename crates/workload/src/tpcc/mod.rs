//! TPC-C (revision 5.11): its database and its calls.
//!
//! The application (schema, assertions and procedures) is `examples/tpcc/`. [`load`] fills its tables as clause 4.3.3
//! requires; [`calls`] draws the transactions' inputs as clause 2 requires, with the usual deviations outside of an
//! audited run: no terminals, no think time, no keying time (so that a warehouse takes all the load it can), and a
//! settable share of distributed New-Orders.

pub mod calls;
pub mod homes;
pub mod load;
mod random;

pub use calls::{CallGenerator, Distribution, Invocation, Mix, TransactionType};
pub use homes::homes;

/// The application's files: name and text, in the order in which they load.
pub const FILES: [(&str, &str); 3] = [
    (
        "examples/tpcc/schema.sql",
        include_str!("../../../../examples/tpcc/schema.sql"),
    ),
    (
        "examples/tpcc/assertions.sql",
        include_str!("../../../../examples/tpcc/assertions.sql"),
    ),
    (
        "examples/tpcc/procedures.sql",
        include_str!("../../../../examples/tpcc/procedures.sql"),
    ),
];

/// Districts of a warehouse (1.2.1).
pub const DISTRICTS: i64 = 10;

/// How large the database is. The specification fixes all but the number of warehouses; tests take
/// less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Warehouses, numbered from 1.
    pub warehouses: u32,
    /// Items of the catalogue.
    pub items: u32,
    /// Customers of a district, and its orders when loaded.
    pub customers: u32,
}

impl Scale {
    /// The specification's sizes (1.2.1).
    pub fn specified(warehouses: u32) -> Scale {
        Scale {
            warehouses,
            items: 100_000,
            customers: 3_000,
        }
    }

    /// A database that loads in a moment, for tests.
    pub fn small(warehouses: u32) -> Scale {
        Scale {
            warehouses,
            items: 1_000,
            customers: 120,
        }
    }

    /// Orders of a district that await delivery when loaded: the last 900 of 3000 (4.3.3.1).
    pub fn undelivered(&self) -> u32 {
        self.customers * 3 / 10
    }

    /// About how many bytes a loaded warehouse takes in memory, for refusing what cannot fit.
    pub fn warehouse_bytes(&self) -> u64 {
        // Measured for the specification's sizes, and nearly proportional to rows.
        const SPECIFIED: u64 = 250 << 20;
        let rows = u64::from(self.items) + 130 * u64::from(self.customers);
        SPECIFIED * rows / (100_000 + 130 * 3_000)
    }
}

mod simulated;

pub use simulated::Tpcc;
