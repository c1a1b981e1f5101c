//! Methods that run without a call in the source (operators, iteration, conversion), recognised by the names that
//! each language reserves for them.

use crate::language::Language;

/// Whether a method is a hook for attributes that do not exist. Such a hook affects the object that declares it.
pub(crate) fn is_attribute_hook(name: &str) -> bool {
    matches!(
        name,
        "__get" | "__isset" | "__unset" | "__getattr__" | "__getattribute__" | "__delattr__"
    )
}

/// Whether a method may run without being called by name: operators, subscripts, loops, conversions, destruction.
/// `takes` is its number of parameters; `is` tests whether its class implements an interface.
pub(crate) fn is_implicit_method(
    language: Language,
    name: &str,
    takes: usize,
    is: impl Fn(&str) -> bool,
) -> bool {
    match language {
        Language::Python => {
            let special = name.len() > 4 && name.starts_with("__") && name.ends_with("__");
            // The walk follows these at their call sites.
            let followed = matches!(
                name,
                "__init__"
                    | "__new__"
                    | "__call__"
                    | "__enter__"
                    | "__exit__"
                    | "__aenter__"
                    | "__aexit__"
            );
            special && !followed && !is_attribute_hook(name)
        }
        Language::Php => match name {
            "__tostring" | "__toString" | "__set" | "__destruct" | "__serialize" | "__sleep"
            | "__clone" => true,
            "offsetGet" | "offsetSet" | "offsetExists" | "offsetUnset" => is("ArrayAccess"),
            "getIterator" => is("IteratorAggregate"),
            "current" | "key" | "next" | "rewind" | "valid" => is("Iterator"),
            "count" => is("Countable"),
            "jsonSerialize" => is("JsonSerializable"),
            _ => false,
        },
        Language::JavaScript | Language::TypeScript => match name {
            "toString" | "valueOf" => takes == 0,
            "toJSON" | "then" => true,
            _ => name.starts_with("[Symbol."),
        },
        Language::Java => match name {
            "toString" | "hashCode" => takes == 0,
            "equals" => takes == 1,
            "iterator" => is("Iterable"),
            "hasNext" | "next" => is("Iterator"),
            "compareTo" => is("Comparable"),
            _ => false,
        },
        Language::Go => {
            takes == 0
                && matches!(
                    name,
                    "String" | "Error" | "GoString" | "MarshalJSON" | "MarshalText"
                )
        }
    }
}

/// Whether a Go function returns an iterator, which a loop runs by calling it.
pub(crate) fn is_sequence(returns: &str) -> bool {
    returns.starts_with("iter.Seq") || returns.starts_with("func(yield ")
}
