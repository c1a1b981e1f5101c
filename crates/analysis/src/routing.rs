//! The coordination class of each type, from its guards and their placement.

use anabranch_sql::summary::Term;
use anabranch_types::Placement;

use crate::guard::KeyedGuard;
use crate::plan::CoordinationClass;

/// The class of a type with these guards, if `routing` is its parameter.
pub(crate) fn class(
    placements: &[Placement],
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
    if held.iter().all(on_routed) || held.iter().all(on_first) {
        CoordinationClass::Local
    } else {
        CoordinationClass::Global
    }
}
