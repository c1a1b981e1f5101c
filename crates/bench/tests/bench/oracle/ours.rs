//! Our database: one node with all tables.

use std::sync::Arc;

use anabranch_analysis::Guarantee;
use anabranch_bench::application::{self, ApplicationError};
use anabranch_engine::load::Loader;
use anabranch_engine::sequence::SequenceStarts;
use anabranch_engine::{Call, CallError, CallId, Node, NodeOptions, PlannedApplication, Work};
use anabranch_protocol::Topology;
use anabranch_protocol::ramp::{RampNode, RampOptions};
use anabranch_sql::expression::text::parse_text;
use anabranch_sql::source::SourceFile;
use anabranch_storage::{Store, StoreSettings};
use anabranch_types::{EffectError, NodeId, PartitionId, Placement, Ticks, Value};

use super::{Answer, Postgres, TextRow, answer, call, contents, run};

/// One node with all tables.
pub(crate) struct Ours {
    planned: Arc<PlannedApplication>,
    node: Node<RampNode>,
    now: Ticks,
}

impl Ours {
    /// A node with the empty tables and the procedures of these files.
    pub(crate) fn new(files: Vec<SourceFile>) -> Result<Ours, ApplicationError> {
        let compiled = application::compile(files)?;
        let mut plan = application::analyze(&compiled, Guarantee::Invariants);
        // Statements write all tables, also those that no transaction type writes.
        plan.placements.fill(Placement::Whole);
        let planned = PlannedApplication::new(compiled, plan, 1);
        let store = Store::new(planned.schema(), StoreSettings::default());
        Ok(Ours {
            node: node(&planned, store),
            planned,
            now: Ticks::default(),
        })
    }

    /// Calls a procedure.
    ///
    /// # Panics
    /// When there is no procedure of this name.
    pub(crate) fn call(&mut self, name: &str, arguments: &[Value]) -> Answer {
        let procedures = &self.planned.application.procedures;
        let place = procedures.iter().position(|p| p.name() == name);
        let place = place.unwrap_or_else(|| panic!("there is no procedure {name}"));
        answer(&run(&mut self.node, &mut self.now, call(place, arguments)))
    }

    /// Runs one statement.
    pub(crate) fn ask(&mut self, text: &str) -> Answer {
        let statement = match self.planned.application.statement(text) {
            Ok(statement) => Arc::new(statement),
            Err(diagnostics) => {
                let first = diagnostics.first().expect("a refusal has a reason");
                return Answer::Failed {
                    code: first.code.to_owned(),
                    message: first.message.clone(),
                    relief: Vec::new(),
                };
            }
        };
        let work = Work::statement(statement);
        let call = Call::new(CallId(1), work, []);
        answer(&run(&mut self.node, &mut self.now, call))
    }

    /// The error of one statement, with all its fields.
    ///
    /// # Panics
    /// When the statement succeeds.
    pub(crate) fn error(&mut self, text: &str) -> EffectError {
        let statement = match self.planned.application.statement(text) {
            Ok(statement) => Arc::new(statement),
            Err(diagnostics) => {
                let first = diagnostics.first().expect("a refusal has a reason");
                return EffectError::new(first.code, first.message.clone());
            }
        };
        self.failure(Call::new(CallId(1), Work::statement(statement), []))
    }

    /// The error of a call of a procedure.
    ///
    /// # Panics
    /// When there is no procedure of this name, or the call succeeds.
    pub(crate) fn call_error(&mut self, name: &str, argument: i64) -> EffectError {
        let procedures = &self.planned.application.procedures;
        let place = procedures.iter().position(|p| p.name() == name);
        let place = place.unwrap_or_else(|| panic!("there is no procedure {name}"));
        self.failure(call(place, &[Value::Int(argument)]))
    }

    fn failure(&mut self, call: Call) -> EffectError {
        match run(&mut self.node, &mut self.now, call).result {
            Err(CallError::Failed(error)) => error,
            other => panic!("it should fail: {other:?}"),
        }
    }

    /// All rows of a table, sorted as text.
    pub(crate) fn contents(&self, table: &str) -> Vec<TextRow> {
        let tables = &self.planned.schema().tables;
        let table = tables
            .iter()
            .find(|t| t.name == table)
            .expect("it is in the schema");
        contents(self.node.protocol().store(), table.id)
    }

    /// Begins again with PostgreSQL's rows, so that one difference causes no others.
    pub(crate) fn load(&mut self, theirs: &mut Postgres) {
        let planned = &self.planned;
        let mut loader = Loader::new(
            Arc::clone(planned),
            PartitionId(0),
            StoreSettings::default(),
        );
        for table in &planned.schema().tables {
            for row in theirs.contents(&table.name) {
                let cells = row.iter().zip(&table.columns);
                let values: Vec<Value> = cells
                    .map(|(cell, column)| match cell {
                        Some(text) => parse_text(text, &column.data_type).expect("its own text"),
                        None => Value::Null,
                    })
                    .collect();
                loader.row(table.id, &values).expect("it fits there");
            }
        }
        self.node = node(planned, loader.into_store());
    }
}

fn node(planned: &Arc<PlannedApplication>, store: Store) -> Node<RampNode> {
    let topology = Arc::new(Topology::one_each(1));
    let programs = planned.application.programs();
    let numbers = SequenceStarts::of(planned, [&store]);
    let protocol = RampNode::new(NodeId(0), topology, store, programs, RampOptions::default());
    Node::new(
        NodeId(0),
        PartitionId(0),
        Arc::clone(planned),
        protocol,
        NodeOptions::default(),
    )
    .with_sequence_starts(&numbers)
}
