//! Statements that write under a plan and are no calls of declared procedures: refused, since nothing has analysed
//! them.

use std::sync::Arc;

use anabranch_engine::PlannedApplication;
use anabranch_sql::application::CompiledStatement;

/// The transaction types that clients have brought.
pub(crate) struct UndeclaredTypes;

/// The plan entry of such a type.
pub(crate) enum StatementEntry {}

/// Why a type is refused.
pub(crate) struct Refusal;

impl Refusal {
    pub(crate) fn code(&self) -> &'static str {
        "0A000"
    }

    pub(crate) fn message(&self) -> String {
        "a statement that writes is not supported beside a plan, which has not analysed it".into()
    }

    pub(crate) fn detail(&self) -> Option<String> {
        None
    }

    pub(crate) fn hint(&self) -> Option<String> {
        Some("Declare a procedure that does it, or serve with --guarantee serializable.".into())
    }
}

impl UndeclaredTypes {
    pub(crate) fn new(_: Arc<PlannedApplication>) -> UndeclaredTypes {
        UndeclaredTypes
    }

    pub(crate) fn admit(
        &self,
        _: &str,
        _: &Arc<CompiledStatement>,
    ) -> Result<Arc<StatementEntry>, Refusal> {
        Err(Refusal)
    }
}
