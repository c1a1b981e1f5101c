//! Names of coordination classes and merge policies in every form of the report.

use crate::plan::{CoordinationClass, MergePolicy};

/// The name of a class in reports.
pub fn class_name(class: CoordinationClass) -> &'static str {
    match class {
        CoordinationClass::Free => "free",
        CoordinationClass::Local => "local",
        CoordinationClass::Global => "global",
    }
}

/// The name of a merge policy in reports.
pub fn merge_name(policy: MergePolicy) -> &'static str {
    match policy {
        MergePolicy::Immutable => "immutable",
        MergePolicy::Counter => "counter",
        MergePolicy::LastWriter => "last-writer",
        MergePolicy::OwnerOrder => "owner-order",
        MergePolicy::Guarded => "guarded",
    }
}
