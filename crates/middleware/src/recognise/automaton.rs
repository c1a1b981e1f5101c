//! The automaton over the statements of clients' transactions: which types can have begun with the statements so far.
//!
//! A type is the statements that a program runs, in branches and loops, or those of a file of SQL. Its positions are its
//! statements; each position has those that may follow. A candidate is a type with the position of its last statement and
//! the values of its parameters so far. A statement advances it if the shape is the same, constants of the source are
//! equal, and each parameter has one value throughout (except those that vary within a transaction).
//!
//! The analysis counts every statement of every branch, whether it runs or not, so an operation that ends early does
//! less than its type, and has the type's class all the same.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use anabranch_sql::script::{ClientTransaction, Step};
use anabranch_types::{DataType, Value};

use super::operand::Arguments;
use super::shape::{Shape, Slot, Written, WrittenKind};
use super::words::lexemes;

/// The most statements of a type that are followed. Larger ones are not recognised.
const POSITIONS_MAX: usize = 1_000;

/// The most candidates of an operation. With more it counts as no type's.
const CANDIDATES_MAX: usize = 256;

/// The number of a shape that some type has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ShapeId(u32);

/// All types that clients run.
#[derive(Debug, Default)]
pub(super) struct Automaton {
    shapes: HashMap<String, ShapeId>,
    types: Vec<ClientType>,
    /// By shape the types, by their number here, that may begin with it, and the positions.
    starts: BTreeMap<ShapeId, Vec<(usize, usize)>>,
}

#[derive(Debug)]
struct ClientType {
    /// Its place among the plan's transaction types.
    place: usize,
    positions: Vec<Position>,
    /// The positions that may be the last.
    ends: BTreeSet<usize>,
    parameters: Vec<Parameter>,
}

#[derive(Debug)]
struct Position {
    shape: ShapeId,
    slots: Vec<Slot>,
    /// The positions that may follow.
    next: Vec<usize>,
}

#[derive(Debug)]
struct Parameter {
    data_type: DataType,
    varies: bool,
}

/// A type that an operation can be.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Candidate {
    of: usize,
    position: usize,
    /// By parameter its value so far.
    values: Vec<Bound>,
}

/// The value of a parameter.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Bound {
    /// No statement so far has it.
    NotYet,
    Value(Value),
    /// A statement has it, but its value cannot be read.
    Unreadable,
}

impl Automaton {
    /// Adds a type, with the types of its parameters. One that cannot be followed is left out.
    pub(super) fn add(
        &mut self,
        client: &ClientTransaction,
        place: usize,
        data_types: &[(String, DataType)],
    ) {
        if !client.unresolved.is_empty() {
            return;
        }
        let mut builder = Builder {
            shapes: &mut self.shapes,
            positions: Vec::new(),
        };
        let Some(whole) = builder.sequence(&client.steps) else {
            return;
        };
        let positions = builder.positions;
        let parameters = client.parameters.iter().enumerate();
        let parameters = parameters.map(|(number, parameter)| Parameter {
            data_type: data_types
                .get(number)
                .map_or(DataType::Text, |(_, data_type)| data_type.clone()),
            varies: parameter.varies,
        });
        for first in &whole.first {
            let starts = self.starts.entry(positions[*first].shape).or_default();
            starts.push((self.types.len(), *first));
        }
        self.types.push(ClientType {
            place,
            positions,
            ends: whole.last,
            parameters: parameters.collect(),
        });
    }

    /// The number of a shape, if some type has it.
    pub(super) fn shape(&self, shape: &Shape) -> Option<ShapeId> {
        self.shapes.get(&shape.key).copied()
    }

    /// The candidates after one more statement. `begins`: whether it may be the first of an operation.
    pub(super) fn advance(
        &self,
        candidates: &[Candidate],
        begins: bool,
        (shape, slots): (ShapeId, &[Slot]),
        arguments: &Arguments<'_>,
    ) -> Vec<Candidate> {
        let mut found = Vec::new();
        let starts = self.starts.get(&shape).filter(|_| begins);
        for (of, position) in starts.into_iter().flatten() {
            let count = self.types[*of].parameters.len();
            let candidate = Candidate {
                of: *of,
                position: *position,
                values: vec![Bound::NotYet; count],
            };
            found.extend(self.bind(candidate, slots, arguments));
        }
        for candidate in candidates {
            let of = &self.types[candidate.of];
            for next in &of.positions[candidate.position].next {
                if of.positions[*next].shape != shape {
                    continue;
                }
                let advanced = Candidate {
                    position: *next,
                    ..candidate.clone()
                };
                if let Some(bound) = self.bind(advanced, slots, arguments)
                    && !found.contains(&bound)
                {
                    found.push(bound);
                }
                if found.len() > CANDIDATES_MAX {
                    return Vec::new();
                }
            }
        }
        found
    }

    /// The candidate with the values of a statement; `None` if its type has no such statement.
    fn bind(
        &self,
        mut candidate: Candidate,
        slots: &[Slot],
        arguments: &Arguments<'_>,
    ) -> Option<Candidate> {
        let of = &self.types[candidate.of];
        let expected = &of.positions[candidate.position].slots;
        for (expected, slot) in expected.iter().zip(slots) {
            match expected.values.as_slice() {
                // One value; in VALUES the same in each row.
                [one] if !expected.is_list || slot.values.len() == 1 => {
                    for written in &slot.values {
                        candidate.bind_one(of, one, written, arguments)?;
                    }
                }
                // A list of parameters has any length, and none of them is a key.
                several
                    if expected.is_list
                        && several.len() > 1
                        && several.iter().all(is_parameter) =>
                {
                    for written in several {
                        candidate.forget(written);
                    }
                }
                several if several.len() == slot.values.len() => {
                    for (one, written) in several.iter().zip(&slot.values) {
                        candidate.bind_one(of, one, written, arguments)?;
                    }
                }
                _ => return None,
            }
        }
        Some(candidate)
    }

    /// The place of a candidate's type among the plan's.
    pub(super) fn place(&self, candidate: &Candidate) -> usize {
        self.types[candidate.of].place
    }

    /// Whether the last statement of an operation may be the last of the candidate's type.
    pub(super) fn is_complete(&self, candidate: &Candidate) -> bool {
        self.types[candidate.of].ends.contains(&candidate.position)
    }
}

fn is_parameter(written: &Written) -> bool {
    matches!(written.kind, WrittenKind::Parameter(_))
}

impl Candidate {
    /// The value of a parameter of its type.
    pub(super) fn value(&self, parameter: usize) -> &Bound {
        self.values.get(parameter).unwrap_or(&Bound::Unreadable)
    }

    /// Binds a value of the source to the value of a statement. `None` if the source's is another one.
    fn bind_one(
        &mut self,
        of: &ClientType,
        expected: &Written,
        written: &Written,
        arguments: &Arguments<'_>,
    ) -> Option<()> {
        let WrittenKind::Parameter(number) = expected.kind else {
            return written.is_constant(expected, arguments).then_some(());
        };
        let parameter = of.parameters.get(number)?;
        if parameter.varies {
            return Some(());
        }
        let value = match written.value(&parameter.data_type, arguments) {
            Some(value) => Bound::Value(value),
            None => Bound::Unreadable,
        };
        let bound = self.values.get_mut(number)?;
        match (&*bound, &value) {
            (Bound::NotYet, _) => *bound = value,
            (Bound::Value(one), Bound::Value(other)) if one == other => {}
            _ => return None,
        }
        Some(())
    }

    fn forget(&mut self, written: &Written) {
        if let WrittenKind::Parameter(number) = written.kind
            && let Some(bound) = self.values.get_mut(number)
        {
            *bound = Bound::Unreadable;
        }
    }
}

/// Some steps: the positions that may be their first and their last, and whether they may be none at all.
#[derive(Debug, Default)]
struct Piece {
    first: BTreeSet<usize>,
    last: BTreeSet<usize>,
    may_be_empty: bool,
}

struct Builder<'s> {
    shapes: &'s mut HashMap<String, ShapeId>,
    positions: Vec<Position>,
}

impl Builder<'_> {
    /// `None` if there are too many steps, or one whose text cannot be read.
    fn sequence(&mut self, steps: &[Step]) -> Option<Piece> {
        let mut whole = Piece {
            may_be_empty: true,
            ..Piece::default()
        };
        for step in steps {
            let piece = self.step(step)?;
            self.follow(&whole.last, &piece.first);
            if whole.may_be_empty {
                whole.first.extend(&piece.first);
            }
            if !piece.may_be_empty {
                whole.last.clear();
                whole.may_be_empty = false;
            }
            whole.last.extend(&piece.last);
        }
        Some(whole)
    }

    fn step(&mut self, step: &Step) -> Option<Piece> {
        match step {
            Step::Run(statement) => {
                let shape = Shape::of(&statement.text, &lexemes(&statement.text)?);
                let number = u32::try_from(self.shapes.len()).ok()?;
                let id = *self.shapes.entry(shape.key).or_insert(ShapeId(number));
                if self.positions.len() >= POSITIONS_MAX {
                    return None;
                }
                let position = self.positions.len();
                self.positions.push(Position {
                    shape: id,
                    slots: shape.slots,
                    next: Vec::new(),
                });
                Some(Piece {
                    first: [position].into(),
                    last: [position].into(),
                    may_be_empty: false,
                })
            }
            Step::Either(branches) => {
                let mut whole = Piece {
                    may_be_empty: true,
                    ..Piece::default()
                };
                for (_, branch) in branches {
                    let piece = self.sequence(branch)?;
                    whole.first.extend(piece.first);
                    whole.last.extend(piece.last);
                }
                Some(whole)
            }
            Step::Repeat(inner) => {
                let piece = self.sequence(inner)?;
                self.follow(&piece.last, &piece.first);
                Some(Piece {
                    may_be_empty: true,
                    ..piece
                })
            }
        }
    }

    fn follow(&mut self, before: &BTreeSet<usize>, after: &BTreeSet<usize>) {
        for position in before {
            let next = &mut self.positions[*position].next;
            for after in after {
                if !next.contains(after) {
                    next.push(*after);
                }
            }
        }
    }
}
