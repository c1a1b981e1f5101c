//! Prepared statements or portals of one connection, by name.

use std::collections::HashMap;
use std::fmt;

use crate::error_fields::ErrorFields;

/// Things by name, as many as are permitted. The empty name is that of the unnamed one, which is replaced without
/// being closed.
#[derive(Debug)]
pub struct Names<T> {
    kind: Kind,
    max: usize,
    nameless: Option<T>,
    named: HashMap<String, T>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Statement,
    Portal,
}

impl Kind {
    fn missing(self, name: &str) -> NameError {
        match self {
            Kind::Statement => NameError::NoStatement(name.to_owned()),
            Kind::Portal => NameError::NoPortal(name.to_owned()),
        }
    }
}

/// Why a name cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NameError {
    /// There is no prepared statement of this name.
    NoStatement(String),
    /// There is no portal of this name.
    NoPortal(String),
    /// There is a prepared statement of this name.
    StatementExists(String),
    /// There is a portal of this name.
    PortalExists(String),
    /// The connection has as many as it may.
    TooMany {
        /// What: prepared statements or portals.
        what: &'static str,
        /// The limit.
        max: usize,
    },
}

impl NameError {
    /// Its SQLSTATE.
    pub fn code(&self) -> &'static str {
        match self {
            NameError::NoStatement(_) => "26000",
            NameError::NoPortal(_) => "34000",
            NameError::StatementExists(_) => "42P05",
            NameError::PortalExists(_) => "42P03",
            NameError::TooMany { .. } => "53400",
        }
    }
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NameError::NoStatement(name) if name.is_empty() => {
                f.write_str("unnamed prepared statement does not exist")
            }
            NameError::NoStatement(name) => {
                write!(f, "prepared statement \"{name}\" does not exist")
            }
            NameError::NoPortal(name) => write!(f, "portal \"{name}\" does not exist"),
            NameError::StatementExists(name) => {
                write!(f, "prepared statement \"{name}\" already exists")
            }
            NameError::PortalExists(name) => write!(f, "cursor \"{name}\" already exists"),
            NameError::TooMany { what, max } => {
                write!(f, "a connection has at most {max} {what}")
            }
        }
    }
}

impl std::error::Error for NameError {}

impl From<NameError> for Box<ErrorFields> {
    fn from(error: NameError) -> Box<ErrorFields> {
        let fields = ErrorFields::error(error.code(), error.to_string());
        Box::new(match error {
            NameError::TooMany { .. } => fields.with_hint("Close some of them."),
            _ => fields,
        })
    }
}

impl<T> Names<T> {
    /// No prepared statement, and room for `max`.
    pub fn statements(max: usize) -> Names<T> {
        Names::new(Kind::Statement, max)
    }

    /// No portal, and room for `max`.
    pub fn portals(max: usize) -> Names<T> {
        Names::new(Kind::Portal, max)
    }

    fn new(kind: Kind, max: usize) -> Names<T> {
        Names {
            kind,
            max,
            nameless: None,
            named: HashMap::new(),
        }
    }

    /// The one with this name.
    ///
    /// # Errors
    /// When there is none.
    pub fn get(&self, name: &str) -> Result<&T, NameError> {
        let found = match name {
            "" => self.nameless.as_ref(),
            name => self.named.get(name),
        };
        found.ok_or_else(|| self.kind.missing(name))
    }

    /// The one with this name, to be changed.
    ///
    /// # Errors
    /// When there is none.
    pub fn get_mut(&mut self, name: &str) -> Result<&mut T, NameError> {
        let kind = self.kind;
        let found = match name {
            "" => self.nameless.as_mut(),
            name => self.named.get_mut(name),
        };
        found.ok_or_else(|| kind.missing(name))
    }

    /// Whether a new one may have this name.
    ///
    /// # Errors
    /// When there is one of this name, or there are as many as are permitted.
    pub fn check_free(&self, name: &str) -> Result<(), NameError> {
        if name.is_empty() {
            return Ok(());
        }
        if self.named.contains_key(name) {
            return Err(match self.kind {
                Kind::Statement => NameError::StatementExists(name.to_owned()),
                Kind::Portal => NameError::PortalExists(name.to_owned()),
            });
        }
        if self.named.len() >= self.max {
            let what = match self.kind {
                Kind::Statement => "prepared statements",
                Kind::Portal => "portals",
            };
            return Err(NameError::TooMany {
                what,
                max: self.max,
            });
        }
        Ok(())
    }

    /// Keeps one under a name; the unnamed one replaces the unnamed one before.
    ///
    /// # Errors
    /// As [`Names::check_free`].
    pub fn insert(&mut self, name: &str, value: T) -> Result<(), NameError> {
        self.check_free(name)?;
        match name {
            "" => self.nameless = Some(value),
            name => _ = self.named.insert(name.to_owned(), value),
        }
        Ok(())
    }

    /// Forgets the one with this name, if there is one.
    pub fn remove(&mut self, name: &str) {
        match name {
            "" => self.nameless = None,
            name => _ = self.named.remove(name),
        }
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.nameless = None;
        self.named.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_used_once_and_the_unnamed_one_is_replaced() {
        let mut names = Names::statements(2);
        for (name, value) in [("", 1), ("a", 2), ("", 3), ("b", 4)] {
            names.insert(name, value).expect("it is free");
        }
        assert_eq!(names.get(""), Ok(&3));
        assert_eq!(
            names.insert("a", 5),
            Err(NameError::StatementExists("a".into()))
        );
        assert_eq!(names.insert("c", 5).unwrap_err().code(), "53400");
        names
            .insert("", 6)
            .expect("the unnamed one counts for nothing");
        names.remove("a");
        names.remove("a");
        assert_eq!(names.get("a").unwrap_err().code(), "26000");
        names.insert("c", 7).expect("there is room again");
        names.clear();
        assert_eq!(
            names.get("").unwrap_err().to_string(),
            "unnamed prepared statement does not exist"
        );
        let portals: Names<u8> = Names::portals(1);
        assert_eq!(portals.get("x").unwrap_err().code(), "34000");
    }
}
