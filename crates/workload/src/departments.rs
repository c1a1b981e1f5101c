//! Departments that are created and deleted, and references to them: no reference dangles, and a department's staff
//! equals its number of members.

use std::sync::Arc;

use anabranch_engine::PlannedApplication;
use anabranch_sql::expression::text::literal;
use anabranch_types::Value;
use fastrand::Rng;

use crate::workload::{Caller, ClientPlacement, Operation, RowSink, Workload, shown};

/// Rooms for each department, if all have the same number.
const ROOMS: i64 = 1;
/// The most members that a client remembers, to let them leave later.
const KNOWN_MAX: usize = 8;

/// The application of `examples/departments/`.
#[derive(Clone, Copy, Debug)]
pub struct Departments {
    /// Departments, of which some exist at any time; consecutive ones lie on different partitions.
    pub departments: i64,
}

impl Departments {
    /// One for each node, and at least two.
    pub fn new(nodes: u16) -> Departments {
        Departments {
            departments: i64::from(nodes).max(2),
        }
    }
}

impl Workload for Departments {
    fn name(&self) -> &'static str {
        "departments"
    }

    fn files(&self) -> &'static [(&'static str, &'static str)] {
        &[
            (
                "examples/departments/schema.sql",
                include_str!("../../../examples/departments/schema.sql"),
            ),
            (
                "examples/departments/assertions.sql",
                include_str!("../../../examples/departments/assertions.sql"),
            ),
            (
                "examples/departments/procedures.sql",
                include_str!("../../../examples/departments/procedures.sql"),
            ),
        ]
    }

    fn procedures(&self) -> &'static [&'static str] {
        &[
            "found",
            "enter",
            "leave",
            "close",
            "take_room",
            "leave_room",
            "look",
            "audit",
        ]
    }

    fn rows(&self, _: u64, take: &mut RowSink<'_>) {
        for id in 0..self.departments {
            take("depts", &["id", "staff"], &[Value::Int(id), Value::Int(0)]);
        }
    }

    fn caller(&self, seed: u64, place: ClientPlacement, _: &PlannedApplication) -> Box<dyn Caller> {
        Box::new(DepartmentsCaller {
            rng: Rng::with_seed(seed),
            departments: self.departments,
            next: i64::from(place.client) << 32,
            known: Vec::new(),
        })
    }

    fn judge(&self, operation: &Operation, rows: &[Vec<Value>]) -> Result<(), String> {
        let row = || match rows {
            [row] => match &row[..] {
                [said, counted, refer] => Some((literal(said), literal(counted), literal(refer))),
                _ => None,
            },
            _ => None,
        };
        let told = || row().ok_or_else(|| format!("the department returned {}", shown(rows)));
        let none = |text: &str| text == "NULL";
        match operation.procedure {
            6 => {
                let (said, counted, in_rooms) = told()?;
                if none(&said) && (counted != "0" || in_rooms != "0") {
                    return Err(format!(
                        "{counted} members and {in_rooms} rooms refer to a department that is not there"
                    ));
                }
                if !none(&said) && said != counted {
                    return Err(format!(
                        "a department counts a staff of {said}, but has {counted} members"
                    ));
                }
                Ok(())
            }
            7 => {
                let (said, counted, dangling) = told()?;
                let said = if none(&said) { "0" } else { &said };
                if dangling != "0" {
                    return Err(format!("{dangling} refer to no department"));
                }
                match said == counted {
                    true => Ok(()),
                    false => Err(format!(
                        "the departments count a staff of {said}, but have {counted} members"
                    )),
                }
            }
            _ => Ok(()),
        }
    }

    /// A reference to a missing row, a deletion of a referenced row, or an occupied room.
    fn refuses(&self, code: &str) -> bool {
        matches!(code, "23503" | "23505")
    }
}

struct DepartmentsCaller {
    rng: Rng,
    departments: i64,
    /// The next member's number.
    next: i64,
    /// Members that may exist.
    known: Vec<i64>,
}

impl DepartmentsCaller {
    fn enters(&mut self) -> i64 {
        self.next += 1;
        if self.known.len() == KNOWN_MAX {
            self.known.remove(0);
        }
        self.known.push(self.next);
        self.next
    }
}

impl Caller for DepartmentsCaller {
    fn next(&mut self) -> Operation {
        let department = self.rng.i64(0..self.departments);
        let room = self.rng.i64(0..self.departments * ROOMS);
        let (procedure, arguments): (usize, Vec<i64>) = match self.rng.u8(0..20) {
            0..=2 => (0, vec![department]),
            3..=7 => (1, vec![self.enters(), department]),
            8..=9 => {
                let known = self.rng.usize(0..self.known.len().max(1));
                (2, vec![self.known.get(known).copied().unwrap_or(0)])
            }
            10..=12 => (3, vec![department]),
            13 => (4, vec![room, department]),
            14..=15 => (5, vec![room]),
            16..=18 => (6, vec![department]),
            _ => (7, Vec::new()),
        };
        Operation {
            procedure,
            arguments: arguments
                .into_iter()
                .map(Value::Int)
                .collect::<Arc<[Value]>>(),
        }
    }
}
