//! The coordination class of each type, from its guards and their placement.

use anabranch_sql::summary::Term;
use anabranch_types::{DataType, Placement, TableSchema};

use crate::guard::KeyedGuard;
use crate::plan::CoordinationClass;

/// How values determine partitions. The same value is at the same partition of two tables only if it does so alike in both:
/// integers count by themselves unless the column may be null, and all other values by their encoding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PlacingKind {
    /// An integer that is never null.
    Integer,
    /// The encoding of a value of this type, which may be null or not.
    Encoded(DataType, bool),
    /// Another number of columns than one.
    Other,
}

impl PlacingKind {
    pub(crate) fn of(schema: &TableSchema, placement: &Placement) -> PlacingKind {
        let Placement::Columns(columns) = placement else {
            return PlacingKind::Other;
        };
        let [column] = columns[..] else {
            return PlacingKind::Other;
        };
        let column = &schema.columns[column.index()];
        match column.data_type.is_integer() && !column.nullable {
            true => PlacingKind::Integer,
            false => PlacingKind::Encoded(column.data_type.clone(), column.nullable),
        }
    }
}

/// The class of a type with these guards, if `routing` is its parameter. `kinds`: how each table's placement takes its
/// values.
pub(crate) fn class(
    placements: &[Placement],
    kinds: &[PlacingKind],
    held: &[KeyedGuard],
    routing: Option<usize>,
) -> CoordinationClass {
    if held.is_empty() {
        return CoordinationClass::Free;
    }
    let on_routed = |guard: &KeyedGuard| match &placements[guard.guard.table.index()] {
        Placement::Columns(columns) => columns.iter().all(|column| {
            let place = guard.guard.key.iter().position(|k| k.column == *column);
            matches!(
                (place.map(|i| &guard.terms[i]), routing),
                (Some(Term::Parameter(p)), Some(r)) if *p == r
            )
        }),
        // Each partition has a copy.
        Placement::Replicated => true,
        Placement::Whole => false,
    };
    let on_first = |guard: &KeyedGuard| {
        matches!(
            placements[guard.guard.table.index()],
            Placement::Whole | Placement::Replicated
        )
    };
    // The parameter's value has to be at one partition, whatever table it is looked for in.
    let mut of_guards = held.iter().filter_map(|guard| {
        let table = guard.guard.table.index();
        matches!(placements[table], Placement::Columns(_)).then_some(&kinds[table])
    });
    let first = of_guards.next();
    let are_alike = of_guards.all(|kind| Some(kind) == first);
    if are_alike && held.iter().all(on_routed) || held.iter().all(on_first) {
        CoordinationClass::Local
    } else {
        CoordinationClass::Global
    }
}
