//! The variables in scope at a place of a body.

use std::collections::BTreeMap;

use crate::catalog::VariableType;

/// Variables by name, the innermost block last.
#[derive(Clone, Debug)]
pub(crate) struct Scope {
    blocks: Vec<BTreeMap<String, Known>>,
    outputs: bool,
}

#[derive(Clone, Debug)]
struct Known {
    data_type: VariableType,
    constant: bool,
}

impl Default for Scope {
    fn default() -> Scope {
        Scope {
            blocks: vec![BTreeMap::new()],
            outputs: false,
        }
    }
}

impl Scope {
    /// Notes that the routine has OUT parameters.
    pub(crate) fn set_outputs(&mut self) {
        self.outputs = true;
    }

    /// Whether the routine has OUT parameters.
    pub(crate) fn has_outputs(&self) -> bool {
        self.outputs
    }

    /// Opens a block.
    pub(crate) fn open(&mut self) {
        self.blocks.push(BTreeMap::new());
    }

    /// Closes the innermost block.
    pub(crate) fn close(&mut self) {
        self.blocks.pop();
    }

    /// Adds a variable to the innermost block; false if it has one of that name.
    pub(crate) fn declare(&mut self, name: &str, data_type: VariableType, constant: bool) -> bool {
        let Some(block) = self.blocks.last_mut() else {
            return false;
        };
        let known = Known {
            data_type,
            constant,
        };
        block.insert(name.to_owned(), known).is_none()
    }

    fn find(&self, name: &str) -> Option<&Known> {
        self.blocks.iter().rev().find_map(|block| block.get(name))
    }

    /// The type of a variable.
    pub(crate) fn get(&self, name: &str) -> Option<&VariableType> {
        self.find(name).map(|known| &known.data_type)
    }

    /// Whether a variable is declared CONSTANT.
    pub(crate) fn is_constant(&self, name: &str) -> bool {
        self.find(name).is_some_and(|known| known.constant)
    }
}
