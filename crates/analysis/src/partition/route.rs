//! Where an operation runs among servers that each have a whole database, and whether it has to wait for the token
//! (operation-partitioning.txt §3; `docs/protocols/belt.md`). The simulator and the middleware route by this module.

use std::sync::Arc;

use anabranch_types::Value;

use super::{OperationClass, PartitionedType, Partitioning};
use crate::Plan;

/// The route of one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperationRoute {
    /// The server that runs it; `None`: any.
    pub server: Option<u16>,
    /// Whether it is global: it runs when its server has the token, and its updates go to all servers.
    pub is_global: bool,
}

/// Which server each key is routed to: a key has a slot, and a slot has a server.
///
/// * The slot of an integer is its residue modulo the number of slots, counted from `first`. So a server's sequence
///   that begins at `first` plus the server's place, and counts in steps of the number of slots, generates keys that
///   are routed to the server itself.
/// * The slot of any other value is a hash (64-bit FNV-1a) of its text. It depends on nothing but the value, and must
///   stay as it is: rows are where it has put them.
///
/// Values that SQL compares as equal are routed to one server although their types differ: `5`, `5.0::numeric` and
/// `5::float8`; a date and the timestamp of its midnight. NULL equals no value, and has the slot of an empty text.
///
/// In a new ring slot *s* of *n* servers belongs to the server with the place *s* mod *n*; a server that joins or leaves
/// moves some slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPlacement {
    first: i64,
    /// By slot the place of the server that it belongs to.
    owners: Arc<[u16]>,
}

impl KeyPlacement {
    /// The placement of keys whose sequences begin at `first`.
    ///
    /// # Panics
    /// When there is no server, or there are fewer slots than servers.
    pub fn new(first: i64, slots: u16, servers: u16) -> KeyPlacement {
        assert!(servers > 0, "a ring has a server");
        assert!(slots >= servers, "each server has a slot");
        let owners = (0..slots).map(|slot| slot % servers);
        KeyPlacement {
            first,
            owners: owners.collect(),
        }
    }

    /// The placement of keys whose sequences begin at `first`, if each slot belongs to the server with this place.
    ///
    /// # Panics
    /// When there is no slot.
    pub fn of_owners(first: i64, owners: &[u16]) -> KeyPlacement {
        assert!(!owners.is_empty(), "there is a slot");
        KeyPlacement {
            first,
            owners: owners.into(),
        }
    }

    /// The place of the server that a key is routed to.
    pub fn server_of(&self, key: &Value) -> u16 {
        self.owners[usize::from(self.slot_of(key))]
    }

    /// The slot of a key.
    pub fn slot_of(&self, key: &Value) -> u16 {
        let slots = self.owners.len();
        if let Some(number) = whole(key) {
            return (i128::from(number) - i128::from(self.first)).rem_euclid(slots as i128) as u16;
        }
        let mut hash = Fnv::new();
        hash.value(key);
        (hash.0 % slots as u64) as u16
    }
}

/// The integer that a number is, if it is one.
fn whole(value: &Value) -> Option<i64> {
    match value {
        Value::Int(number) => Some(*number),
        Value::Numeric(decimal) => decimal.normalized().to_scaled(0),
        // Beyond 2^53 a float stands for several integers, but it equals only the one that it converts to.
        Value::Float(number) if number.fract() == 0.0 && number.abs() < 9.2e18 => {
            Some(*number as i64)
        }
        _ => None,
    }
}

/// 64-bit FNV-1a.
struct Fnv(u64);

impl Fnv {
    fn new() -> Fnv {
        Fnv(0xcbf2_9ce4_8422_2325)
    }

    fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn value(&mut self, value: &Value) {
        const DAY_MICROS: i64 = 86_400_000_000;
        match value {
            Value::Null => {}
            Value::Text(text) => self.bytes(text.as_bytes()),
            Value::Bool(truth) => self.bytes(if *truth { b"t" } else { b"f" }),
            Value::Uuid(uuid) => self.bytes(uuid),
            Value::Bytes(bytes) => self.bytes(bytes),
            Value::Timestamp(micros) => self.bytes(micros.to_string().as_bytes()),
            Value::Date(days) => {
                let micros = i64::from(*days).saturating_mul(DAY_MICROS);
                self.bytes(micros.to_string().as_bytes());
            }
            Value::Array(elements) => {
                for element in elements.iter() {
                    self.bytes(b",");
                    self.value(element);
                }
            }
            number => match (whole(number), number) {
                (Some(whole), _) => self.bytes(whole.to_string().as_bytes()),
                (None, Value::Numeric(decimal)) => {
                    self.bytes(decimal.normalized().to_string().as_bytes());
                }
                (None, Value::Float(float)) => self.bytes(float.to_string().as_bytes()),
                (None, other) => unreachable!("{other:?} is no key: it is known at commit alone"),
            },
        }
    }
}

impl PartitionedType {
    /// The route of an operation of this type. `server_of` gives the server of the argument for a parameter, or `None`
    /// if its value is not known.
    ///
    /// # Errors
    /// The parameter without a known value, if the operation's rows may be on one server alone, which only that value
    /// tells.
    pub fn route(&self, server_of: impl Fn(usize) -> Option<u16>) -> Result<OperationRoute, usize> {
        let Some((first, others)) = self.parameters.split_first() else {
            return Ok(OperationRoute {
                server: None,
                is_global: self.class == OperationClass::Global,
            });
        };
        let server = match (server_of(*first), self.class) {
            (None, OperationClass::Commutative) => None,
            (None, _) => return Err(*first),
            (server, _) => server,
        };
        let agree = || others.iter().all(|other| server_of(*other) == server);
        Ok(OperationRoute {
            server,
            is_global: match self.class {
                OperationClass::Commutative | OperationClass::Local => false,
                // With an unknown parameter it counts as global, which is right wherever that is routed to.
                OperationClass::LocalOrGlobal => !agree(),
                OperationClass::Global => true,
            },
        })
    }
}

impl Partitioning {
    /// Whether operations of a type have to run on the server that their key is routed to: something that the type or
    /// a conflicting one writes is on that server alone. Where only global operations write what it accesses, every
    /// server has it, and the type is routed only to keep conflicts on one server.
    pub fn needs_key(&self, owner: usize) -> bool {
        let is_global = |of: usize| self.types[of].class == OperationClass::Global;
        self.of_type(owner).any(|conflict| {
            let (one, other) = conflict.types;
            conflict.clauses.iter().any(|clause| {
                (clause.is_written_by(true) && !is_global(one))
                    || (clause.is_written_by(false) && !is_global(other))
            })
        })
    }
}

/// The routes of an application's calls.
#[derive(Clone, Debug)]
pub struct OperationRouter {
    /// By procedure.
    types: Vec<Option<PartitionedType>>,
    keys: KeyPlacement,
}

impl OperationRouter {
    /// The routes of calls of these procedures. `None` if the plan has no operation partitioning: it has one if it
    /// guarantees serializability.
    pub fn new<'n>(
        plan: &Plan,
        procedures: impl IntoIterator<Item = &'n str>,
        keys: KeyPlacement,
    ) -> Option<OperationRouter> {
        let partitioning = plan.partitioning.as_ref()?;
        let entry_of = |name: &str| {
            let place = plan.entries.iter().position(|entry| entry.name == name)?;
            partitioning.types.get(place).cloned()
        };
        Some(OperationRouter {
            types: procedures.into_iter().map(entry_of).collect(),
            keys,
        })
    }

    /// The route of a call. A procedure that was not analysed is global. A missing argument counts as NULL.
    pub fn route(&self, procedure: usize, arguments: &[Value]) -> OperationRoute {
        let Some(of) = self.types.get(procedure).and_then(Option::as_ref) else {
            return OperationRoute {
                server: None,
                is_global: true,
            };
        };
        let server_of = |parameter: usize| {
            let argument = arguments.get(parameter).unwrap_or(&Value::Null);
            Some(self.keys.server_of(argument))
        };
        let Ok(route) = of.route(server_of) else {
            unreachable!("every argument has a server")
        };
        route
    }
}

#[cfg(test)]
mod tests {
    use anabranch_types::{DataType, TimeZone, text::parse_value};

    use super::*;

    fn value(text: &str, data_type: &DataType) -> Value {
        parse_value(text, data_type, &TimeZone::default()).unwrap_or_else(|e| panic!("{e:?}"))
    }

    #[test]
    fn integers_are_placed_by_their_residue() {
        let keys = KeyPlacement::new(0, 16, 3);
        let server = |number| keys.server_of(&Value::Int(number));
        assert_eq!([0, 1, 2, 3, 15, 16, 17].map(server), [0, 1, 2, 0, 0, 0, 1]);
        assert_eq!(server(-1), 0, "its residue modulo 16 is 15");
        assert_eq!(server(i64::MIN), 0);
        // The simulator's sequences begin at 1, with a slot for each server.
        let keys = KeyPlacement::new(1, 3, 3);
        let places = [1, 2, 3, 4, 0].map(|number| keys.server_of(&Value::Int(number)));
        assert_eq!(places, [0, 1, 2, 0, 2]);
        assert_eq!(keys.server_of(&Value::Int(i64::MIN)), 0, "no overflow");
    }

    #[test]
    fn equal_values_of_different_types_have_one_server() {
        let keys = KeyPlacement::new(0, 1_024, 64);
        let of = |text: &str, data_type: DataType| keys.slot_of(&value(text, &data_type));
        assert_eq!(of("21", DataType::Int4), 21);
        assert_eq!(of("21.00", DataType::Numeric(None)), 21);
        assert_eq!(of("21", DataType::Double), 21);
        assert_eq!(
            of("0.50", DataType::Numeric(None)),
            of("0.5", DataType::Double)
        );
        assert_eq!(
            of("2024-02-29", DataType::Date),
            of("2024-02-29 00:00:00", DataType::Timestamp)
        );
        assert_eq!(of("ab ", DataType::Char(3)), of("ab", DataType::Text));
    }

    /// Rows are where the hash has put them: it may never change.
    #[test]
    fn hashes_are_those_of_the_published_function() {
        let hash = |text: &str| {
            let mut fnv = Fnv::new();
            fnv.value(&Value::text(text));
            fnv.0
        };
        // The vectors of the authors of FNV.
        assert_eq!(hash(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(hash("a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(hash("foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn an_unknown_key_is_refused_where_rows_are_on_one_server() {
        let of = |class, parameters: &[usize]| PartitionedType {
            class,
            parameters: parameters.to_vec(),
            generates: false,
            weight: 1,
            cost: 0,
            unexamined: false,
        };
        let unknown = |_| None;
        assert_eq!(
            of(OperationClass::Local, &[1]).route(unknown),
            Err(1),
            "its rows are on one server"
        );
        assert_eq!(of(OperationClass::Global, &[2]).route(unknown), Err(2));
        let any = of(OperationClass::Global, &[]).route(unknown).unwrap();
        assert!(any.is_global && any.server.is_none());
        let first_alone = |parameter| (parameter == 0).then_some(1);
        let route = of(OperationClass::LocalOrGlobal, &[0, 3]).route(first_alone);
        assert_eq!(
            route,
            Ok(OperationRoute {
                server: Some(1),
                is_global: true
            })
        );
    }
}
