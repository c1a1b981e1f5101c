//! The reads of a call that its arguments alone determine.
