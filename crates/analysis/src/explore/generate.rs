//! Random cases: rows that satisfy what is declared, and calls with arguments that refer to them.
//!
//! Values come from a small pool, so that rows and calls meet: the numbers 0 to 3, two letters, and the constants
//! of the application's own text. Rows are inserted one after the other, parents first; rows that violate an
//! assertion are changed or removed until none does.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use anabranch_sql::CompiledStatement;
use anabranch_sql::catalog::{Catalog, ColumnDefault};
use anabranch_sql::testing::ready;
use anabranch_types::{ColumnIndex, DataType, Decimal, SplitMix64, TableId, Value};

use super::call::{Call, Side, run};
use super::case::Case;
use super::constants::{self, NamedConstants};
use super::state::{self, Attempt, Log, State};
use super::validity::violated;
use super::{Effort, World};

/// The most rows of a table.
const ROWS_MAX: u64 = 3;

/// Rows tried in each table of a dense state.
const ROWS_DENSE: u64 = 6;

/// Changes tried to make some rows satisfy the assertions.
const REPAIRS_MAX: u32 = 40;

/// Rows tried in a table of a state that grows row by row.
const GROWTHS_MAX: u32 = 24;

/// The longest array that is tried because a CHECK condition names its length.
const ELEMENTS_MAX: usize = 16;

/// How many calls of a case have reserved numbers that other calls may choose.
const CHOSEN_MAX: u64 = 8;

/// Ancestor states, each used many times.
const ANCESTORS: usize = 48;

/// How many of them there are at first.
const ANCESTORS_FIRST: usize = 6;

/// How many cases are tried before one more ancestor state is made.
const CASES_A_STATE: usize = 12;

/// A pseudo-random number generator.
#[derive(Clone, Debug)]
pub(super) struct Random(SplitMix64);

impl Random {
    pub(super) fn below(&mut self, n: u64) -> u64 {
        (self.0.bits() >> 16) % n.max(1)
    }

    pub(super) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub(super) fn pick<'l, T>(&mut self, list: &'l [T]) -> Option<&'l T> {
        list.get(self.below(list.len() as u64) as usize)
    }
}

/// How rows are inserted into a table.
#[derive(Clone)]
struct Loader {
    table: TableId,
    /// The columns that an INSERT may name.
    columns: Vec<ColumnIndex>,
    insert: Rc<CompiledStatement>,
}

/// What all generators of an application share.
pub(super) struct Source<'w> {
    pub(super) world: &'w World<'w>,
    seed: u64,
    /// Parents before children.
    loaders: Vec<Loader>,
    integers: Vec<i64>,
    texts: Vec<String>,
    /// The constants that CHECK conditions name, by column.
    named: BTreeMap<(TableId, ColumnIndex), NamedConstants>,
    /// The array lengths that are tried.
    pub(super) lengths: Vec<usize>,
    /// Whether states grow row by row if no other is found, and calls choose numbers that identity columns assign.
    thorough: bool,
    /// Whether there are identity columns whose numbers calls then choose.
    draws_numbers: bool,
    /// Ancestor states, by the tables that have rows; `None` where no state was found that satisfies everything.
    ancestors: RefCell<BTreeMap<Vec<TableId>, Vec<Option<State>>>>,
}

impl<'w> Source<'w> {
    /// A source with this seed.
    pub(super) fn new(world: &'w World<'w>, seed: u64) -> Source<'w> {
        let (integers, texts) = constants::constants(world);
        Source {
            world,
            seed,
            loaders: loaders(world),
            integers,
            texts,
            named: BTreeMap::new(),
            lengths: Vec::new(),
            thorough: false,
            draws_numbers: false,
            ancestors: RefCell::default(),
        }
    }

    /// The same with more effort: an application with many assertions gets rows at all, calls that use many keys
    /// find them, and calls choose numbers that identity columns assigned in other calls. (Nodes assign other
    /// numbers.)
    pub(super) fn thorough(mut self) -> Source<'w> {
        self.thorough = true;
        self.named = constants::of_columns(self.world);
        let integers = self.named.values().flat_map(|named| &named.integers);
        let lengths: BTreeSet<usize> = integers
            .filter_map(|n| usize::try_from(*n).ok())
            .filter(|n| (2..=ELEMENTS_MAX).contains(n))
            .collect();
        self.lengths = lengths.into_iter().collect();
        let catalog = self.world.catalog();
        self.draws_numbers = catalog.all_sequences().next().is_some();
        self
    }

    /// One of the states that have rows in these tables: the same for every caller.
    fn ancestor(&self, reach: &RelevantTables, number: usize) -> Option<State> {
        let mut all = self.ancestors.borrow_mut();
        let made = all.entry(reach.tables.clone()).or_default();
        while made.len() <= number {
            let stream = SplitMix64::stream(self.seed, "ancestor", made.len() as u64);
            let mut generator = Generator {
                source: self,
                random: Random(stream),
                reach: reach.clone(),
                tried: 0,
                narrow: false,
                makers: Vec::new(),
                seen: Vec::new(),
            };
            let state = generator.state();
            let valid = violated(self.world, &state).is_empty();
            made.push(valid.then_some(state));
        }
        made[number].clone()
    }
}

/// The tables that matter to some transaction types.
#[derive(Clone, Debug)]
struct RelevantTables {
    /// All of them, in order.
    tables: Vec<TableId>,
    /// How they are filled, parents before children: the loader, and whether a row is required because others refer
    /// to it.
    loaders: Vec<(usize, bool)>,
}

impl RelevantTables {
    /// Computes the tables: those that these types name, those that assertions relate to them or require rows of,
    /// and all that these refer to.
    fn of(source: &Source<'_>, types: &[usize]) -> RelevantTables {
        let world = source.world;
        let summaries = world.application.summaries();
        let accesses = types
            .iter()
            .flat_map(|of| &summaries[*of].statements)
            .flat_map(|statement| &statement.accesses);
        let mut tables: BTreeSet<TableId> = accesses.map(|access| access.table).collect();
        for assertion in &world.assertions {
            if !assertion.holds_empty || assertion.tables.iter().any(|table| tables.contains(table))
            {
                tables.extend(&assertion.tables);
            }
        }
        let mut referred: BTreeSet<TableId> = BTreeSet::new();
        let mut pending: Vec<TableId> = tables.iter().copied().collect();
        while let Some(child) = pending.pop() {
            for key in &world.catalog().table(child).foreign_keys {
                referred.insert(key.parent);
                if tables.insert(key.parent) {
                    pending.push(key.parent);
                }
            }
        }
        let loaders = source.loaders.iter().enumerate();
        let loaders = loaders.filter(|(_, loader)| tables.contains(&loader.table));
        RelevantTables {
            loaders: loaders
                .map(|(place, loader)| (place, referred.contains(&loader.table)))
                .collect(),
            tables: tables.into_iter().collect(),
        }
    }
}

/// Makes cases of some transaction types.
pub(super) struct Generator<'s> {
    pub(super) source: &'s Source<'s>,
    pub(super) random: Random,
    reach: RelevantTables,
    /// How many cases were made.
    tried: usize,
    /// Whether most numbers of this case are 1, so that calls use the same keys.
    narrow: bool,
    /// Types that are called only before replicas diverge: they make rows that the others need.
    makers: Vec<usize>,
    /// The arguments of this case's calls, and the values that they put into rows.
    pub(super) seen: Vec<Value>,
}

/// A case in which every call has succeeded where it ran.
pub(super) struct ValidCase {
    /// The state before any call.
    start: State,
    before: Vec<Call>,
    /// The state from which replicas diverge.
    pub(super) ancestor: State,
    /// The calls in the order of timestamps, with their logs.
    pub(super) calls: Vec<(Call, Log)>,
}

impl ValidCase {
    /// Converts it to rows and calls.
    pub(super) fn case(&self, world: &World<'_>) -> Case {
        let calls = self.before.iter();
        let calls = calls.chain(self.calls.iter().map(|(call, _)| call));
        Case {
            rows: self.start.rows(world.schema()),
            calls: calls.cloned().collect(),
        }
    }
}

impl<'s> Generator<'s> {
    /// A generator of calls of these types.
    pub(super) fn new(source: &'s Source<'s>, types: &[usize]) -> Generator<'s> {
        Generator {
            source,
            random: Random(SplitMix64::new(source.seed)),
            reach: RelevantTables::of(source, types),
            tried: 0,
            narrow: false,
            makers: Vec::new(),
            seen: Vec::new(),
        }
    }

    /// The same, where these types may also be called before replicas diverge.
    pub(super) fn after(mut self, types: &[usize], makers: Vec<usize>) -> Generator<'s> {
        let all: Vec<usize> = types.iter().chain(&makers).copied().collect();
        self.reach = RelevantTables::of(self.source, &all);
        self.makers = makers;
        self
    }

    /// A state that satisfies everything; one without rows if none was found.
    pub(super) fn any_ancestor(&mut self) -> State {
        let number = self.random.below(ANCESTORS as u64) as usize;
        let found = self.source.ancestor(&self.reach, number);
        found.unwrap_or_default()
    }

    /// A case of these types in which every call succeeds where it runs; `None` if none was found.
    pub(super) fn case(
        &mut self,
        types: &[usize],
        planned: bool,
        effort: Effort,
    ) -> Option<ValidCase> {
        // A few states first: most violations appear soon, and a state costs more than a case.
        let known = ANCESTORS.min(ANCESTORS_FIRST + self.tried / CASES_A_STATE);
        self.tried += 1;
        self.narrow = self.source.thorough && self.random.one_in(2);
        self.seen.clear();
        let number = self.random.below(known as u64) as usize;
        let start = self.source.ancestor(&self.reach, number)?;
        let mut state = start.clone();
        let mut before = Vec::new();
        let mut number = 0;
        for _ in 0..self.random.below(u64::from(effort.before_max) + 1) {
            let makes = !self.makers.is_empty() && self.random.one_in(2);
            let makers = if makes {
                self.makers.clone()
            } else {
                Vec::new()
            };
            let of = if makes { &makers } else { types };
            let called = self.try_call(of, Side::Before, &mut number, &mut state, planned);
            before.extend(called.map(|(call, _)| call));
        }
        let mut sides: [VecDeque<(Call, Log)>; 2] = Default::default();
        for (side, calls) in [Side::Left, Side::Right].into_iter().zip(&mut sides) {
            let mut state = state.clone();
            for _ in 0..1 + self.random.below(u64::from(effort.calls_max)) {
                calls.extend(self.try_call(types, side, &mut number, &mut state, planned));
            }
            if calls.is_empty() {
                return None;
            }
        }
        // Timestamps: any order that keeps each replica's.
        let [mut left, mut right] = sides;
        let mut calls = Vec::new();
        while !left.is_empty() || !right.is_empty() {
            let take_left = right.is_empty() || (!left.is_empty() && self.random.one_in(2));
            let from = if take_left { &mut left } else { &mut right };
            calls.extend(from.pop_front());
        }
        Some(ValidCase {
            start,
            before,
            ancestor: state,
            calls,
        })
    }

    fn try_call(
        &mut self,
        types: &[usize],
        side: Side,
        number: &mut u64,
        state: &mut State,
        planned: bool,
    ) -> Option<(Call, Log)> {
        for _ in 0..4 {
            let procedure = self.random.pick(types).copied()?;
            *number += 1;
            let arguments = match self.source.thorough {
                true => self.meeting_arguments(procedure, state),
                false => self.arguments(procedure, state),
            };
            let call = Call {
                procedure,
                arguments,
                side,
                number: *number,
            };
            if let Some((next, log)) = run(self.source.world, state, &call, planned)
                && !log.effects.is_empty()
            {
                *state = next;
                if self.source.thorough {
                    self.remember(&call.arguments, &log);
                }
                return Some((call, log));
            }
        }
        None
    }

    pub(super) fn arguments(&mut self, procedure: usize, state: &State) -> Vec<Value> {
        let parameters = self.source.world.application.procedures[procedure].parameters();
        let elements = 1 + self.random.below(2) as usize;
        let types: Vec<DataType> = parameters.iter().map(|(_, t)| t.clone()).collect();
        let mut values = Vec::new();
        for data_type in &types {
            values.push(match data_type {
                DataType::Array(of) => {
                    let list: Vec<Value> = (0..elements).map(|_| self.value(of)).collect();
                    Value::Array(list.into())
                }
                DataType::Uuid => self.uuid(state),
                _ if self.random.one_in(24) => Value::Null,
                _ => self.value(data_type),
            });
        }
        values
    }

    /// The uuid of an existing row, mostly.
    fn uuid(&mut self, state: &State) -> Value {
        let rows = state.rows(self.source.world.schema());
        let values = rows.into_iter().flat_map(|(_, values)| values);
        let mut known: Vec<Value> = values.filter(|v| matches!(v, Value::Uuid(_))).collect();
        known.push(self.value(&DataType::Uuid));
        self.random.pick(&known).cloned().unwrap_or(Value::Null)
    }

    fn integer(&mut self) -> i64 {
        if self.source.draws_numbers && self.random.one_in(8) {
            return state::number_given(1 + self.random.below(CHOSEN_MAX));
        }
        if self.narrow && !self.random.one_in(4) {
            return 1;
        }
        let small = self.random.below(8);
        match small {
            0..=2 => 1,
            3 => 0,
            4 | 5 => 2,
            6 => 3,
            _ => self
                .random
                .pick(&self.source.integers)
                .copied()
                .unwrap_or(5),
        }
    }

    fn value(&mut self, data_type: &DataType) -> Value {
        match data_type {
            DataType::Bool => Value::Bool(self.random.one_in(2)),
            DataType::Int2 | DataType::Int4 | DataType::Int8 => Value::Int(self.integer()),
            DataType::Numeric(_) => Value::Numeric(Decimal::from_i64(self.integer())),
            DataType::Real | DataType::Double => Value::Float(self.integer() as f64),
            DataType::Text | DataType::Varchar(_) | DataType::Char(_) => {
                let text = self
                    .random
                    .pick(&self.source.texts)
                    .cloned()
                    .unwrap_or_default();
                let most = match data_type {
                    DataType::Varchar(Some(n)) | DataType::Char(n) => *n as usize,
                    _ => usize::MAX,
                };
                Value::text(text.chars().take(most).collect::<String>())
            }
            DataType::Uuid => {
                let mut bytes = [0; 16];
                bytes[15] = 1 + self.random.below(3) as u8;
                Value::Uuid(bytes)
            }
            DataType::Timestamp | DataType::TimestampTz => {
                Value::Timestamp(self.random.below(3) as i64 * 1_000_000)
            }
            DataType::Date => Value::Date(self.random.below(3) as i32),
            DataType::Enum(of) => match self.random.pick(&of.labels) {
                Some(label) => Value::text(label),
                None => Value::Null,
            },
            _ => Value::Null,
        }
    }

    /// A state that satisfies everything, perhaps without rows.
    fn state(&mut self) -> State {
        let mut state = State::default();
        // Two calls that each need a row in several tables find them only in dense states.
        let is_dense = self.source.thorough && self.random.one_in(3);
        for (place, is_referred_to) in self.reach.loaders.clone() {
            // Few rows make assertions easy to satisfy; many make calls meet. Without a parent there is no child,
            // and so nothing below it.
            let most = match self.random.below(4) {
                _ if is_dense => ROWS_DENSE,
                0 if is_referred_to && !self.random.one_in(4) => 1,
                0 => 0,
                1 => 1,
                _ => 1 + self.random.below(ROWS_MAX),
            };
            for _ in 0..most {
                state = self.with_row(place, &state).unwrap_or(state);
            }
        }
        self.repaired(state)
    }

    /// The state with one more row, if such a row is possible.
    fn with_row(&mut self, place: usize, state: &State) -> Option<State> {
        let table = self.source.loaders[place].table;
        let values = self.row(table, state);
        let columns = self.source.loaders[place].columns.clone();
        let parameters: Vec<Value> = columns.iter().map(|c| values[c.index()].clone()).collect();
        let number = 1_000 + self.random.below(1_000_000);
        let mut attempt = Attempt::new(self.source.world, state.clone(), number, false);
        let insert = &self.source.loaders[place].insert;
        ready(insert.execute(&mut attempt, &parameters)).ok()?;
        attempt.check_deferred().ok()?;
        Some(attempt.into_parts().0)
    }

    /// Values for a row; foreign key columns have some parent's.
    pub(super) fn row(&mut self, table: TableId, state: &State) -> Vec<Value> {
        let world = self.source.world;
        let schema = world.schema().table(table);
        let mut values: Vec<Value> = Vec::new();
        for column in &schema.columns {
            let null = column.nullable && self.random.one_in(3);
            values.push(if null {
                Value::Null
            } else if self.random.one_in(3) && column.data_type.is_numeric() {
                match column.data_type {
                    DataType::Numeric(_) => Value::Numeric(Decimal::from_i64(0)),
                    DataType::Real | DataType::Double => Value::Float(0.0),
                    _ => Value::Int(0),
                }
            } else {
                self.value(&column.data_type)
            });
        }
        if self.source.thorough {
            self.fit(table, &mut values);
        }
        for key in &schema.primary_key {
            if schema.columns[key.index()].data_type.is_integer() {
                values[key.index()] = Value::Int(1 + self.random.below(2) as i64);
            }
        }
        for key in &world.catalog().tables[table.index()].foreign_keys {
            let parent = world.schema().table(key.parent);
            let rows: Vec<Vec<Value>> = state
                .of_table(key.parent)
                .values()
                .map(|row| row.values(&parent.layout))
                .collect();
            let Some(row) = self.random.pick(&rows) else {
                for column in &key.columns {
                    if schema.columns[column.index()].nullable {
                        values[column.index()] = Value::Null;
                    }
                }
                continue;
            };
            for (column, of_parent) in key.columns.iter().zip(&key.parent_columns) {
                values[column.index()] = row[of_parent.index()].clone();
            }
        }
        values
    }

    /// Puts constants of CHECK conditions into a row's values, and zero in the place of numbers that do not fit
    /// their column.
    fn fit(&mut self, table: TableId, values: &mut [Value]) {
        let columns = &self.source.world.schema().table(table).columns;
        for ((value, column), place) in values.iter_mut().zip(columns).zip(0..) {
            let named = self.source.named.get(&(table, ColumnIndex(place)));
            let used = named.filter(|_| *value != Value::Null && self.random.one_in(2));
            if let Some(named) = used {
                let integer = self.random.pick(&named.integers).copied();
                let text = self.random.pick(&named.texts);
                let fitting = match (&*value, integer, text) {
                    (Value::Int(_), Some(n), _) => Some(Value::Int(n)),
                    (Value::Numeric(_), Some(n), _) => Some(Value::Numeric(Decimal::from_i64(n))),
                    (Value::Text(_), _, Some(text)) => Some(Value::text(text.as_str())),
                    _ => None,
                };
                *value = fitting.unwrap_or_else(|| value.clone());
            }
            if let (Value::Numeric(n), DataType::Numeric(Some(bounds))) =
                (&*value, &column.data_type)
                && n.rescale(*bounds).is_err()
            {
                *value = Value::Numeric(Decimal::from_i64(0));
            }
        }
    }

    /// Changes values and removes rows until nothing is violated.
    fn repaired(&mut self, mut state: State) -> State {
        let world = self.source.world;
        let schema = world.schema();
        let mut wrong = violated(world, &state).len();
        for _ in 0..REPAIRS_MAX {
            if wrong == 0 {
                return state;
            }
            let mut rows = state.rows(schema);
            if rows.is_empty() || self.random.one_in(4) {
                let Some((place, _)) = self.random.pick(&self.reach.loaders).copied() else {
                    return state;
                };
                if let Some(more) = self.with_row(place, &state) {
                    let left = violated(world, &more).len();
                    if left <= wrong {
                        (state, wrong) = (more, left);
                    }
                }
                continue;
            }
            let place = self.random.below(rows.len() as u64) as usize;
            if self.random.one_in(3) {
                rows.remove(place);
            } else {
                let (table, values) = &mut rows[place];
                let columns = &schema.table(*table).columns;
                let column = self.random.below(columns.len() as u64) as usize;
                let data_type = columns[column].data_type.clone();
                values[column] = self.value(&data_type);
            }
            // Values have the form that their columns give them only once they are stored.
            let Some(changed) = self.stored(&rows) else {
                continue;
            };
            let left = violated(world, &changed).len();
            if left <= wrong {
                (state, wrong) = (changed, left);
            }
        }
        match wrong {
            0 => state,
            _ if self.source.thorough => self.grown(),
            _ => State::default(),
        }
    }

    /// A state that grows row by row: a row is kept if the state then satisfies everything.
    fn grown(&mut self) -> State {
        let world = self.source.world;
        let mut state = State::default();
        for (place, _) in self.reach.loaders.clone() {
            let mut rows = 1 + self.random.below(2);
            for _ in 0..GROWTHS_MAX {
                if rows == 0 {
                    break;
                }
                let more = self.with_row(place, &state);
                if let Some(more) = more.filter(|more| violated(world, more).is_empty()) {
                    state = more;
                    rows -= 1;
                }
            }
        }
        state
    }

    /// A state of these rows, put in one by one.
    fn stored(&mut self, rows: &[(TableId, Vec<Value>)]) -> Option<State> {
        let mut state = State::default();
        for (loader, _) in self.reach.loaders.clone() {
            let table = self.source.loaders[loader].table;
            for (number, (_, values)) in rows.iter().enumerate().filter(|(_, (t, _))| *t == table) {
                let columns = &self.source.loaders[loader].columns;
                let parameters: Vec<Value> =
                    columns.iter().map(|c| values[c.index()].clone()).collect();
                let number = 1_000 + number as u64;
                let mut attempt = Attempt::new(self.source.world, state, number, false);
                let insert = &self.source.loaders[loader].insert;
                ready(insert.execute(&mut attempt, &parameters)).ok()?;
                attempt.check_deferred().ok()?;
                state = attempt.into_parts().0;
            }
        }
        Some(state)
    }
}

/// How rows are inserted into each table, parents before children. A table that cannot be filled from outside stays
/// empty.
fn loaders(world: &World<'_>) -> Vec<Loader> {
    let catalog = world.catalog();
    let mut loaders = Vec::new();
    for table in world.order.iter().copied() {
        let schema = world.schema().table(table);
        let declared = &catalog.tables[table.index()];
        let chosen = |c: &usize| {
            !matches!(
                declared.defaults.get(*c),
                Some(ColumnDefault::Generated { always: true, .. } | ColumnDefault::Computed(..))
            )
        };
        let columns: Vec<ColumnIndex> = (0..schema.columns.len())
            .filter(chosen)
            .map(|c| ColumnIndex(c as u16))
            .collect();
        let names: Vec<String> = columns
            .iter()
            .map(|c| quoted(&schema.columns[c.index()].name))
            .collect();
        let numbers: Vec<String> = (1..=columns.len()).map(|n| format!("${n}")).collect();
        let text = format!(
            "INSERT INTO {} ({}) VALUES ({})",
            quoted(&schema.name),
            names.join(", "),
            numbers.join(", ")
        );
        if let Ok(insert) = world.application.statement(&text) {
            loaders.push(Loader {
                table,
                columns,
                insert: Rc::new(insert),
            });
        }
    }
    loaders
}

/// A name as SQL has it.
pub(crate) fn quoted(name: &str) -> String {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let begins = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
    if begins && name.chars().all(plain) && RESERVED.binary_search(&name).is_err() {
        name.to_owned()
    } else {
        format!("\"{}\"", name.replace('"', "\"\""))
    }
}

/// The words that PostgreSQL accepts as names only in quotes, sorted.
const RESERVED: [&str; 101] = [
    "all",
    "analyse",
    "analyze",
    "and",
    "any",
    "array",
    "as",
    "asc",
    "asymmetric",
    "authorization",
    "binary",
    "both",
    "case",
    "cast",
    "check",
    "collate",
    "collation",
    "column",
    "concurrently",
    "constraint",
    "create",
    "cross",
    "current_catalog",
    "current_date",
    "current_role",
    "current_schema",
    "current_time",
    "current_timestamp",
    "current_user",
    "default",
    "deferrable",
    "desc",
    "distinct",
    "do",
    "else",
    "end",
    "except",
    "false",
    "fetch",
    "for",
    "foreign",
    "freeze",
    "from",
    "full",
    "grant",
    "group",
    "having",
    "ilike",
    "in",
    "initially",
    "inner",
    "intersect",
    "into",
    "is",
    "isnull",
    "join",
    "lateral",
    "leading",
    "left",
    "like",
    "limit",
    "localtime",
    "localtimestamp",
    "natural",
    "not",
    "notnull",
    "null",
    "offset",
    "on",
    "only",
    "or",
    "order",
    "outer",
    "overlaps",
    "placing",
    "primary",
    "references",
    "returning",
    "right",
    "select",
    "session_user",
    "similar",
    "some",
    "symmetric",
    "system_user",
    "table",
    "tablesample",
    "then",
    "to",
    "trailing",
    "true",
    "union",
    "unique",
    "user",
    "using",
    "variadic",
    "verbose",
    "when",
    "where",
    "window",
    "with",
];

/// The tables, parents before children; tables of a cycle in order of declaration.
pub(super) fn in_order(catalog: &Catalog) -> Vec<TableId> {
    let tables = &catalog.tables;
    let mut waits: Vec<bool> = vec![true; tables.len()];
    let mut order: Vec<TableId> = Vec::with_capacity(tables.len());
    while order.len() < tables.len() {
        let before = order.len();
        for table in tables {
            let mut keys = table.foreign_keys.iter();
            if waits[table.id.index()]
                && keys.all(|k| k.parent == table.id || !waits[k.parent.index()])
            {
                waits[table.id.index()] = false;
                order.push(table.id);
            }
        }
        // A cycle: the table that is declared first goes first.
        if order.len() == before
            && let Some(first) = tables.iter().find(|t| waits[t.id.index()])
        {
            waits[first.id.index()] = false;
            order.push(first.id);
        }
    }
    order
}
