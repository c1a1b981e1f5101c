//! Where an operation runs among servers that each have a whole database, and whether it has to wait for the token
//! (operation-partitioning.txt §3; `docs/protocols/belt.md`).

use std::hash::Hasher;

use anabranch_analysis::partition::OperationClass;
use anabranch_types::Value;
use rustc_hash::FxHasher;

use crate::application::PlannedApplication;

/// The route of one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperationRoute {
    /// The server that runs it; `None`: any.
    pub server: Option<u16>,
    /// Whether it is global: it runs when its server has the token, and its updates go to all servers.
    pub is_global: bool,
}

/// The routes of an application's operations.
#[derive(Clone, Debug)]
pub struct OperationRouter {
    /// By procedure: its class, and the parameters that route it.
    types: Vec<Option<(OperationClass, Vec<usize>)>>,
    servers: u16,
}

impl OperationRouter {
    /// The routes on so many servers. `None` if the plan has no operation partitioning: it has one if it guarantees
    /// serializability.
    ///
    /// # Panics
    /// When `servers` is 0.
    pub fn new(planned: &PlannedApplication, servers: u16) -> Option<OperationRouter> {
        assert!(servers > 0, "a ring has a server");
        let partitioning = planned.plan.partitioning.as_ref()?;
        let entry_of = |name: &str| {
            let mut entries = planned.plan.entries.iter();
            let place = entries.position(|entry| entry.name == name)?;
            let of = partitioning.types.get(place)?;
            Some((of.class, of.parameters.clone()))
        };
        let procedures = planned.application.procedures.iter();
        Some(OperationRouter {
            types: procedures.map(|it| entry_of(it.name())).collect(),
            servers,
        })
    }

    /// The route of a call. A procedure that was not analysed is global.
    pub fn route(&self, procedure: usize, arguments: &[Value]) -> OperationRoute {
        let known = self.types.get(procedure).and_then(Option::as_ref);
        let Some((class, parameters)) = known else {
            return OperationRoute {
                server: None,
                is_global: true,
            };
        };
        let mut servers = parameters
            .iter()
            .map(|parameter| arguments.get(*parameter).map_or(0, |it| self.server_of(it)));
        let server = servers.next();
        let agree = servers.all(|other| Some(other) == server);
        OperationRoute {
            server,
            is_global: match class {
                OperationClass::Commutative | OperationClass::Local => false,
                OperationClass::LocalOrGlobal => !agree,
                OperationClass::Global => true,
            },
        }
    }

    /// The server that a key is routed to. Of *n* servers the one with number *k* generates the integers *k* + 1,
    /// *k* + 1 + *n* and so on ([`crate::sequence`]), and these are routed to itself.
    fn server_of(&self, key: &Value) -> u16 {
        let servers = i64::from(self.servers);
        match key {
            Value::Int(number) => number.wrapping_sub(1).rem_euclid(servers) as u16,
            other => {
                let mut hasher = FxHasher::default();
                hasher.write(format!("{other:?}").as_bytes());
                (hasher.finish() % u64::from(self.servers)) as u16
            }
        }
    }
}
