//! Binds what statements name of the system catalogs: relations, functions over them, and casts between OIDs and
//! objects' names.
//!
//! The analyser of foreign SQL (see [`crate::script`]) has no system catalogs: an application's statements over them
//! say nothing about its own tables.

mod collect;
mod function;
mod series;
mod written;

pub(crate) use collect::index_part;
pub(crate) use series::{field_name, moved};

use std::sync::{Arc, LazyLock};

use anabranch_types::{DataType, ObjectKind, Value};
use sqlparser::ast::{self, Spanned, TableFactor};

use super::{
    Bind, Binder, Bound,
    convert::Context,
    fold,
    from::{FromList, SourceKind},
    term::RawTerm,
};
use crate::{
    catalog::Catalog,
    diagnostic::Diagnostic,
    expression::{Expression, Function, SequenceFunction, SequenceTarget},
    plan::{
        Body, Finish, FunctionStep, Join, OutputColumn, Query, QueryStep, RowsOf, Select, Step,
        TableFunction,
    },
    ring_relation::RingRelation,
    session_value::{CursorColumn, SessionValue},
    system::{
        self, Cell, Contents, SessionCell, System,
        lookup::SystemFunction,
        objects::{OWNER, Objects},
        relations::Definition,
    },
    transaction_column::TransactionColumn,
};

/// The system catalogs of a catalog, made when they are first needed.
pub(crate) fn system_of(catalog: &Catalog) -> &Arc<System> {
    catalog
        .system
        .get_or_init(|| Arc::new(System::new(collect::objects(catalog))))
}

impl Binder<'_> {
    /// The system catalogs; `None` for the analyser of foreign SQL.
    fn system(&self) -> Option<&Arc<System>> {
        /// Stands for the system catalogs while they are made.
        static NOTHING: LazyLock<Arc<System>> =
            LazyLock::new(|| Arc::new(System::new(Objects::default())));
        match self.catalog.opaque {
            None if self.describes => Some(&NOTHING),
            None => Some(system_of(self.catalog)),
            Some(_) => None,
        }
    }

    /// A relation of the system catalogs, if the name is one's. Names without a schema are looked up in `pg_catalog`
    /// first, as PostgreSQL does.
    pub(crate) fn system_relation(
        &self,
        name: &ast::ObjectName,
    ) -> Bind<Option<&'static Definition>> {
        if self.catalog.opaque.is_some() {
            return Ok(None);
        }
        let parts: Vec<String> = name
            .0
            .iter()
            .filter_map(|part| part.as_ident().map(fold))
            .collect();
        let found = match parts.as_slice() {
            [name] => system::find(None, name),
            [schema, name] => system::find(Some(schema), name),
            _ => None,
        };
        match (found, parts.as_slice()) {
            (None, [schema, relation])
                if matches!(schema.as_str(), "pg_catalog" | "information_schema") =>
            {
                let message = format!("relation \"{schema}.{relation}\" does not exist");
                Err(self
                    .error("42P01", message, name)
                    .help("PostgreSQL may have it; this server has a part of its system catalogs"))
            }
            (found, _) => Ok(found),
        }
    }

    /// Adds a relation of the system catalogs to the innermost scope.
    pub(crate) fn add_system_relation(
        &mut self,
        of: &'static Definition,
        alias: Option<&ast::TableAlias>,
        factor: &TableFactor,
        list: &mut FromList,
    ) -> Bind<()> {
        if self.is_stored() && self.views.is_empty() {
            let construct = format!("{}.{} in a constraint", of.schema, of.name);
            return Err(self.unsupported(&construct, factor));
        }
        let name = alias.map_or_else(|| of.name.to_owned(), |alias| fold(&alias.name));
        let columns: Vec<OutputColumn> = of
            .columns
            .iter()
            .map(|column| (column.name.to_owned(), column.data_type.clone()))
            .collect();
        let system = Arc::clone(self.system().expect("foreign SQL has no such relation"));
        let of_session: Option<Vec<SessionValue>> = match (of.schema, of.name) {
            ("pg_catalog", "pg_cursors") => {
                Some(CursorColumn::ALL.map(SessionValue::Cursors).to_vec())
            }
            ("anabranch", "transactions") => {
                let all = TransactionColumn::ALL.iter();
                Some(all.map(|(of, _)| SessionValue::Transactions(*of)).collect())
            }
            ("anabranch", name) => {
                let mut all = RingRelation::ALL.into_iter();
                let relation = all.find(|of| of.name() == name);
                relation.map(|relation| {
                    let columns = 0..columns.len();
                    let value = |column| SessionValue::Ring { relation, column };
                    columns.map(value).collect()
                })
            }
            _ => None,
        };
        if let Some(values) = of_session {
            let rows = self.rows_of_session(of, values, &columns, factor)?;
            return self.add_source(name, columns, alias, SourceKind::Query(rows), factor, list);
        }
        let kind = match system.contents(of) {
            Contents::Constant(values) => SourceKind::Constant {
                values,
                width: columns.len(),
            },
            Contents::Session(rows) => {
                SourceKind::Query(self.session_rows(&rows, &columns, factor)?)
            }
        };
        self.add_source(name, columns, alias, kind, factor, list)
    }

    /// A relation whose rows the session has, as a query: `values` are its columns.
    fn rows_of_session(
        &mut self,
        of: &Definition,
        values: Vec<SessionValue>,
        columns: &[OutputColumn],
        syntax: &impl Spanned,
    ) -> Bind<Query> {
        let mut arrays = Vec::new();
        for value in values {
            let slot = self.variables.session_value(value);
            arrays.push(Expression::Variable(slot.ok_or_else(|| {
                self.unsupported(&format!("{} in a procedure", of.name), syntax)
                    .help("read this relation by a statement of its own")
            })?));
        }
        let step = Step::Function(Box::new(FunctionStep {
            source: 1,
            function: TableFunction::Unnest,
            arguments: arrays,
            ordinality: false,
            join: Join::default(),
        }));
        Ok(Self::query_of(step, columns))
    }

    /// Rows with values of the connection, as a query.
    fn session_rows(
        &mut self,
        rows: &[Vec<Cell>],
        columns: &[OutputColumn],
        syntax: &impl Spanned,
    ) -> Bind<Query> {
        let mut bound = Vec::new();
        for row in rows {
            let mut cells = Vec::new();
            for cell in row {
                cells.push(match cell {
                    Cell::Value(value) => Expression::Constant(value.clone()),
                    Cell::Session(cell) => self.session_cell(*cell, syntax)?,
                    Cell::LastCalled(sequence) => Expression::OfSequence {
                        function: SequenceFunction::LastCalled,
                        target: SequenceTarget::Named(Arc::clone(sequence)),
                        arguments: Vec::new(),
                    },
                });
            }
            bound.push(cells);
        }
        Ok(Self::rows_query(bound, columns))
    }

    /// These rows as a query.
    pub(in crate::bind) fn rows_query(
        rows: Vec<Vec<Expression>>,
        columns: &[OutputColumn],
    ) -> Query {
        let step = Step::Rows {
            source: 1,
            rows,
            join: Join::default(),
        };
        Self::query_of(step, columns)
    }

    /// All columns of a step, as a query.
    fn query_of(step: Step, columns: &[OutputColumn]) -> Query {
        let projection = (0..columns.len()).map(|column| Expression::Column {
            depth: 0,
            source: 1,
            column,
        });
        let select = Select {
            stride: 2,
            steps: vec![step],
            projection: projection.collect(),
            finish: Finish {
                visible: columns.len(),
                ..Finish::default()
            },
            uniques: 0,
        };
        Query {
            ctes: Vec::new(),
            body: Body::Select(Box::new(select)),
            columns: columns.to_vec(),
            correlated: false,
            terms: columns.iter().map(|_| RawTerm::Unknown).collect(),
        }
    }

    /// A value of the connection.
    fn session_cell(&mut self, cell: SessionCell, syntax: &impl Spanned) -> Bind<Expression> {
        let value = match cell {
            SessionCell::User => SessionValue::SessionUser,
            SessionCell::Database => SessionValue::Database,
            SessionCell::Setting(name) => SessionValue::Setting {
                name: name.to_lowercase(),
                missing_ok: true,
            },
        };
        let slot = self.variables.session_value(value).ok_or_else(|| {
            self.unsupported("a value of the connection in a procedure", syntax)
                .help("read this relation by a statement of its own")
        })?;
        Ok(Expression::Variable(slot))
    }

    /// A call of a function over the system catalogs.
    fn system_call(
        &self,
        function: SystemFunction,
        arguments: Vec<Expression>,
        data_type: DataType,
    ) -> Option<Bound> {
        let system = Arc::clone(self.system()?);
        let function = Function::System(function, system);
        Some(Self::call(function, arguments, data_type))
    }

    /// A conversion between an OID and an object's name, if `to` asks for one.
    pub(crate) fn coerce_name(
        &mut self,
        bound: &Bound,
        to: &DataType,
        context: Context,
        syntax: &impl Spanned,
    ) -> Bind<Option<Expression>> {
        match (&bound.data_type, to) {
            (from, DataType::OidAlias(kind)) if from.as_ref().is_none_or(DataType::is_text) => {
                if let Expression::Constant(Value::Null) = bound.expression {
                    return Ok(Some(Expression::NULL));
                }
                if *kind == ObjectKind::Role {
                    return Err(self.unsupported("the name of a role as an OID", syntax));
                }
                let text =
                    self.coerce(bound.clone(), &DataType::Text, Context::Implicit, syntax)?;
                if let (Expression::Constant(Value::Text(name)), Some(system)) =
                    (&text, self.system())
                {
                    let place = bound.place.unwrap_or_else(|| self.place_of(syntax));
                    let of = |error: anabranch_types::EffectError| {
                        Diagnostic::new(error.code, error.message, place)
                    };
                    if self.describes {
                        return Ok(Some(Expression::Constant(Value::Int(0))));
                    }
                    let found = system.resolve(*kind, name).map_err(of)?;
                    let oid = found.ok_or_else(|| of(system::lookup::unknown(*kind, name)))?;
                    return Ok(Some(Expression::Constant(Value::Int(oid.into()))));
                }
                let function = SystemFunction::Resolve(*kind);
                let call = self.system_call(function, vec![text], to.clone());
                Ok(call.map(|call| call.expression))
            }
            (Some(DataType::OidAlias(ObjectKind::Role)), to) if to.is_text() => {
                let oid = Bound::new(bound.expression.clone(), DataType::Oid);
                Ok(Some(self.role_name(oid, syntax)?.expression))
            }
            (Some(DataType::OidAlias(kind)), to) if to.is_text() => {
                if context < Context::Assignment {
                    return Ok(None);
                }
                let function = SystemFunction::Name(*kind);
                let call =
                    self.system_call(function, vec![bound.expression.clone()], DataType::Text);
                match call {
                    Some(call) => Ok(Some(self.coerce(call, to, context, syntax)?)),
                    None => Ok(None),
                }
            }
            _ => Ok(None),
        }
    }

    /// `pg_get_userbyid(oid)`: the session's user owns everything.
    fn role_name(&mut self, oid: Bound, syntax: &impl Spanned) -> Bind<Bound> {
        let user = self.session_cell(SessionCell::User, syntax)?;
        let text = |literal: &str| Expression::Constant(Value::text(literal));
        let number = Expression::Cast {
            operand: Box::new(oid.expression.clone()),
            from: DataType::Oid,
            to: DataType::Text,
            explicit: true,
        };
        let unknown = Expression::Concat(
            Box::new(Expression::Concat(
                Box::new(text("unknown (OID=")),
                Box::new(number),
            )),
            Box::new(text(")")),
        );
        let is_owner = Expression::Compare {
            relation: crate::expression::Relation::Equal,
            left: Box::new(oid.expression),
            right: Box::new(Expression::Constant(Value::Int(OWNER.into()))),
        };
        let name = Expression::Case {
            branches: vec![(is_owner, user)],
            otherwise: Box::new(unknown),
        };
        Ok(Bound::new(name, DataType::Name))
    }

    /// A query whose columns of `regclass` and its kin are written as the objects' names, which is how a client reads
    /// them.
    pub(crate) fn with_names(&mut self, query: Query) -> Bind<Query> {
        let is_alias = |(_, data_type): &OutputColumn| matches!(data_type, DataType::OidAlias(_));
        if !query.columns.iter().any(is_alias) {
            return Ok(query);
        }
        let mut columns = Vec::new();
        let mut projection = Vec::new();
        let place = ast::ObjectName(Vec::new());
        for (column, (name, data_type)) in query.columns.iter().enumerate() {
            let value = Expression::Column {
                depth: 0,
                source: 1,
                column,
            };
            let bound = Bound::new(value, data_type.clone());
            let shown = match data_type {
                DataType::OidAlias(_) => DataType::Text,
                other => other.clone(),
            };
            projection.push(self.coerce(bound, &shown, Context::Explicit, &place)?);
            columns.push((name.clone(), shown));
        }
        let terms = query.terms.clone();
        let step = QueryStep {
            source: 1,
            rows: RowsOf::Query(query),
            hash: Vec::new(),
            join: Join::default(),
        };
        let select = Select {
            stride: 2,
            steps: vec![Step::Query(Box::new(step))],
            finish: Finish {
                visible: columns.len(),
                ..Finish::default()
            },
            projection,
            uniques: 0,
        };
        Ok(Query {
            ctes: Vec::new(),
            body: Body::Select(Box::new(select)),
            columns,
            correlated: false,
            terms,
        })
    }
}
