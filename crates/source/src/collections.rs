//! Collections of a language's own library, in which connections wait: their methods run no SQL.

/// Whether a class of a language's own library keeps objects, and calls no method of them: a connection that waits in
/// it runs nothing.
pub(crate) fn is_collection(class: &str) -> bool {
    const ENDS: [&str; 8] = [
        "List", "Queue", "Deque", "Set", "Map", "Vector", "Stack", "Array",
    ];
    ENDS.iter().any(|end| class.ends_with(end))
        || matches!(
            class,
            "Collection"
                | "ThreadLocal"
                | "WeakHashMap"
                | "Hashtable"
                | "LifoQueue"
                | "SplObjectStorage"
                | "SplQueue"
                | "SplStack"
                | "WeakMap"
                | "AtomicReference"
        )
}

/// Puts its argument into a collection, by names that hardly anything else has.
pub(crate) fn adds(name: &str) -> bool {
    matches!(
        name,
        "addelement"
            | "insertelementat"
            | "removeelement"
            | "addlast"
            | "addfirst"
            | "offer"
            | "offerlast"
            | "offerfirst"
            | "putlast"
            | "putfirst"
            | "put_nowait"
            | "appendleft"
            | "unshift"
            | "enqueue"
            | "returnobject"
    )
}
