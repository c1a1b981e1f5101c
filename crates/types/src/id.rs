//! Newtypes for everything that is numbered, so that one number cannot be passed for another.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty), $prefix:literal) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        pub struct $name(pub $inner);

        impl $name {
            /// The number as an index into a dense table.
            #[inline]
            pub fn index(self) -> usize {
                usize::from(self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
    };
}

id!(
    /// One server of a cluster, or one thread of the embedded cluster. At most
    /// [`crate::time::NODES_MAX`] of them, since a [`crate::Timestamp`] carries its node.
    NodeId(u16), "n"
);
id!(
    /// A disjoint part of the key space.
    PartitionId(u16), "p"
);
id!(
    /// A table of the catalog, numbered densely from 0 in order of declaration.
    TableId(u16), "t"
);
id!(
    /// An index of a table, numbered densely from 0 within that table.
    IndexId(u16), "i"
);
id!(
    /// A column of a table, numbered densely from 0 in order of declaration.
    ColumnIndex(u16), "c"
);
id!(
    /// A row program of the catalog (see the storage crate): what a deferred effect computes.
    ProgramId(u16), "program "
);
id!(
    /// The place of a value that one transaction's deferred effects produce at commit.
    SlotId(u16), "slot "
);
