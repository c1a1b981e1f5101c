//! A connection's settings: `SET`, `SHOW`, `RESET`, and the parameters that a client names at start-up.
//!
//! PostgreSQL's settings that drivers and tools set are known, with its defaults and its checks. A setting that
//! changes what a client sees is honoured or refused; one that only tunes PostgreSQL keeps its value and does
//! nothing. A name with a dot is the client's own, as in PostgreSQL; those that begin with `anabranch.` are the server's.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anabranch_types::Ticks;
use anabranch_types::zone::TimeZone;
use anabranch_wire::ErrorFields;

use super::errors::error;

/// PostgreSQL's version that the dialect follows and tests compare with.
pub(crate) const SERVER_VERSION: &str =
    concat!("15.15 (anabranch ", env!("CARGO_PKG_VERSION"), ")");
const SERVER_VERSION_NUMBER: &str = "150015";

/// A setting that is known.
struct Definition {
    name: &'static str,
    kind: Kind,
    default: &'static str,
    /// Whether the client is told its value at start-up and at each change.
    reported: bool,
}

/// The values that a setting takes.
enum Kind {
    /// Cannot be changed.
    Fixed,
    Bool,
    /// One of these.
    Enum(&'static [&'static str]),
    /// An integer in this range.
    Integer(i64, i64),
    Real,
    /// Milliseconds, or a number with a unit.
    Milliseconds,
    /// Kilobytes, or a number with a unit.
    Kilobytes,
    Text,
    /// Only this value is supported: what is asked for, and what would be right.
    Only(&'static [&'static str]),
    TimeZone,
    DateStyle,
    Encoding,
}

use Kind::{
    Bool, DateStyle, Encoding, Enum, Fixed, Integer, Kilobytes, Milliseconds, Only, Real, Text,
};

const fn known(name: &'static str, kind: Kind, default: &'static str) -> Definition {
    Definition {
        name,
        kind,
        default,
        reported: false,
    }
}

const fn reported(name: &'static str, kind: Kind, default: &'static str) -> Definition {
    Definition {
        name,
        kind,
        default,
        reported: true,
    }
}

const ISOLATION: Kind = Enum(&[
    "serializable",
    "repeatable read",
    "read committed",
    "read uncommitted",
]);
const MESSAGES: Kind = Enum(&[
    "debug5", "debug4", "debug3", "debug2", "debug1", "debug", "log", "info", "notice", "warning",
    "error",
]);

/// The server's own settings begin so.
const OURS: &str = "anabranch.";

/// The known settings, sorted by lower-case name. `transaction_isolation` shows what the server gives
/// ([`Settings::get`]).
const DEFINITIONS: &[Definition] = &[
    // Whether a transaction's shape that changes the plan is accepted with that plan.
    known("anabranch.accept_plan", Bool, "off"),
    // Whether a transaction that writes runs alone.
    known("anabranch.alone", Bool, "off"),
    // Under which hop of the Conveyor Belt a transaction commits as a global operation; 0: under none.
    known("anabranch.hop", Integer(0, i64::MAX), "0"),
    // What the ring that the database is in waits for, as the middleware says.
    known("anabranch.waits_for", Text, ""),
    reported("application_name", Text, ""),
    known("array_nulls", Only(&["on"]), "on"),
    known("backslash_quote", Text, "safe_encoding"),
    known("block_size", Fixed, "8192"),
    known("bytea_output", Only(&["hex"]), "hex"),
    known("check_function_bodies", Bool, "on"),
    reported("client_encoding", Encoding, "UTF8"),
    known("client_min_messages", MESSAGES, "notice"),
    known("cursor_tuple_fraction", Real, "0.1"),
    reported("DateStyle", DateStyle, "ISO, MDY"),
    known("deadlock_timeout", Milliseconds, "1s"),
    known("debug_print_plan", Bool, "off"),
    known("default_table_access_method", Text, "heap"),
    known("default_tablespace", Text, ""),
    known("default_text_search_config", Text, "pg_catalog.simple"),
    known("default_transaction_deferrable", Bool, "off"),
    known("default_transaction_isolation", ISOLATION, "read committed"),
    reported("default_transaction_read_only", Bool, "off"),
    known("effective_cache_size", Kilobytes, "4GB"),
    known("enable_bitmapscan", Bool, "on"),
    known("enable_hashagg", Bool, "on"),
    known("enable_hashjoin", Bool, "on"),
    known("enable_indexonlyscan", Bool, "on"),
    known("enable_indexscan", Bool, "on"),
    known("enable_material", Bool, "on"),
    known("enable_mergejoin", Bool, "on"),
    known("enable_nestloop", Bool, "on"),
    known("enable_partition_pruning", Bool, "on"),
    known("enable_seqscan", Bool, "on"),
    known("enable_sort", Bool, "on"),
    known("enable_tidscan", Bool, "on"),
    known("escape_string_warning", Bool, "on"),
    known("exit_on_error", Bool, "off"),
    known("extra_float_digits", Integer(1, 3), "1"),
    known(
        "force_parallel_mode",
        Enum(&["off", "on", "regress"]),
        "off",
    ),
    known("from_collapse_limit", Integer(1, 2_147_483_647), "8"),
    known("geqo", Bool, "on"),
    known("idle_in_transaction_session_timeout", Milliseconds, "5min"),
    known("idle_session_timeout", Milliseconds, "0"),
    reported("in_hot_standby", Fixed, "off"),
    reported("integer_datetimes", Fixed, "on"),
    reported(
        "IntervalStyle",
        Enum(&["postgres", "postgres_verbose", "sql_standard", "iso_8601"]),
        "postgres",
    ),
    reported("is_superuser", Fixed, "off"),
    known("jit", Bool, "on"),
    known("join_collapse_limit", Integer(1, 2_147_483_647), "8"),
    known("lc_collate", Fixed, "C"),
    known("lc_ctype", Fixed, "C"),
    known("lc_messages", Text, "C"),
    known("lc_monetary", Text, "C"),
    known("lc_numeric", Text, "C"),
    known("lc_time", Text, "C"),
    known("lock_timeout", Milliseconds, "0"),
    known("maintenance_work_mem", Kilobytes, "64MB"),
    known("max_connections", Fixed, ""),
    known("max_identifier_length", Fixed, "63"),
    known("max_index_keys", Fixed, "32"),
    known("max_parallel_workers_per_gather", Integer(0, 1024), "2"),
    known("password_encryption", Fixed, "scram-sha-256"),
    known("plan_cache_mode", Text, "auto"),
    known("port", Fixed, ""),
    known("quote_all_identifiers", Bool, "off"),
    known("random_page_cost", Real, "4"),
    known("role", Text, "none"),
    known("row_security", Bool, "on"),
    known("search_path", Text, "\"$user\", public"),
    known("seq_page_cost", Real, "1"),
    reported("server_encoding", Fixed, "UTF8"),
    reported("server_version", Fixed, SERVER_VERSION),
    known("server_version_num", Fixed, SERVER_VERSION_NUMBER),
    reported("session_authorization", Fixed, ""),
    reported("standard_conforming_strings", Only(&["on"]), "on"),
    known("statement_timeout", Milliseconds, "0"),
    known("synchronize_seqscans", Bool, "on"),
    known(
        "synchronous_commit",
        Enum(&["on", "off", "local", "remote_write", "remote_apply"]),
        "on",
    ),
    known("tcp_keepalives_count", Integer(0, 2_147_483_647), "0"),
    known("tcp_keepalives_idle", Integer(0, 2_147_483_647), "0"),
    known("tcp_keepalives_interval", Integer(0, 2_147_483_647), "0"),
    known("temp_buffers", Kilobytes, "8MB"),
    reported("TimeZone", Kind::TimeZone, "UTC"),
    known("transaction_deferrable", Bool, "off"),
    known("transaction_isolation", Fixed, ""),
    known("transaction_read_only", Bool, "off"),
    known("transform_null_equals", Only(&["off"]), "off"),
    known("wal_buffers", Fixed, "4MB"),
    known("work_mem", Kilobytes, "4MB"),
    known("xmlbinary", Enum(&["base64", "hex"]), "base64"),
    known("xmloption", Enum(&["content", "document"]), "content"),
];

/// Other names of settings.
const ALIASES: &[(&str, &str)] = &[
    ("time zone", "timezone"),
    ("session characteristics", "default_transaction_isolation"),
    ("transaction isolation level", "transaction_isolation"),
    ("names", "client_encoding"),
];

/// The values of a connection that are not in the list of settings.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(crate) user: String,
    pub(crate) database: String,
    pub(crate) connections_max: usize,
    pub(crate) port: u16,
    /// What every transaction has.
    pub(crate) isolation: &'static str,
}

/// A connection's settings.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    identity: Identity,
    /// The values that RESET goes back to, where they are not the defaults: those of the start-up message.
    initial: BTreeMap<Cow<'static, str>, String>,
    /// The values that differ from the defaults.
    values: BTreeMap<Cow<'static, str>, String>,
    zone: TimeZone,
    statement_timeout: Option<Duration>,
    idle_in_transaction_timeout: Option<Duration>,
    lock_timeout: Option<Duration>,
    /// The modes of the open transaction.
    transaction: Option<TransactionSettings>,
}

/// What SHOW gives of an open transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TransactionSettings {
    /// `transaction_isolation`
    pub(crate) isolation: &'static str,
    /// `transaction_read_only`
    pub(crate) read_only: bool,
    /// `transaction_deferrable`, if the transaction has named it
    pub(crate) deferrable: Option<bool>,
}

/// A change that the client is told of.
pub(crate) type Reported = Option<(&'static str, String)>;

fn definition(name: &str) -> Option<&'static Definition> {
    let name = ALIASES
        .iter()
        .find(|(alias, _)| alias.eq_ignore_ascii_case(name))
        .map_or(name, |(_, name)| name);
    DEFINITIONS
        .iter()
        .find(|definition| definition.name.eq_ignore_ascii_case(name))
}

/// A setting's name as SHOW writes it in its heading.
pub(crate) fn canonical_name(name: &str) -> String {
    definition(name).map_or_else(|| name.to_ascii_lowercase(), |of| of.name.to_owned())
}

impl Settings {
    /// The defaults.
    pub(crate) fn new(identity: Identity) -> Settings {
        Settings {
            identity,
            initial: BTreeMap::new(),
            values: BTreeMap::new(),
            zone: TimeZone::UTC,
            statement_timeout: None,
            idle_in_transaction_timeout: Some(IDLE_IN_TRANSACTION_TIMEOUT),
            lock_timeout: None,
            transaction: None,
        }
    }

    /// Takes the parameters of the start-up message.
    ///
    /// # Errors
    /// As [`Settings::set`].
    pub(crate) fn start(
        &mut self,
        parameters: &[(String, String)],
    ) -> Result<(), Box<ErrorFields>> {
        for (name, value) in parameters {
            match name.as_str() {
                "user" | "database" | "replication" => {}
                "options" => {
                    for (name, value) in options(value)? {
                        self.set(&name, &value)?;
                    }
                }
                _ => {
                    self.set(name, value)?;
                }
            }
        }
        self.initial = self.values.clone();
        Ok(())
    }

    /// The settings that a client is told at start-up.
    pub(crate) fn reported(&self) -> Vec<(&'static str, String)> {
        let reported = DEFINITIONS.iter().filter(|definition| definition.reported);
        let shown = reported.map(|definition| (definition.name, self.value(definition)));
        shown.collect()
    }

    /// The session's time zone.
    pub(crate) fn zone(&self) -> &TimeZone {
        &self.zone
    }

    /// After how long a statement is cancelled.
    pub(crate) fn statement_timeout(&self) -> Option<Duration> {
        self.statement_timeout
    }

    /// After how long a client that leaves its transaction open is told to go.
    pub(crate) fn idle_in_transaction_timeout(&self) -> Option<Duration> {
        self.idle_in_transaction_timeout
    }

    /// How long a statement waits for a lock.
    pub(crate) fn lock_timeout(&self) -> Option<Ticks> {
        self.lock_timeout
            .map(|limit| Ticks::from_micros(limit.as_micros() as u64))
    }

    /// Notes the modes of the open transaction; `None` when it has ended.
    pub(crate) fn set_transaction(&mut self, transaction: Option<TransactionSettings>) {
        self.transaction = transaction;
    }

    /// What a client that knows `before` is told.
    pub(crate) fn reported_changes(&self, before: &Settings) -> Vec<(&'static str, String)> {
        let old = before.reported();
        let changed = self.reported().into_iter().zip(old);
        changed
            .filter(|(new, old)| new != old)
            .map(|(new, _)| new)
            .collect()
    }

    /// The user's name.
    pub(crate) fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Whether a setting of two values is on.
    pub(crate) fn is_on(&self, name: &str) -> bool {
        definition(name).is_some_and(|definition| self.value(definition) == "on")
    }

    /// The value of a setting as SHOW gives it.
    ///
    /// # Errors
    /// 42704 for a name that is not known.
    pub(crate) fn get(&self, name: &str) -> Result<String, Box<ErrorFields>> {
        match definition(name) {
            Some(definition) => Ok(self.value(definition)),
            None => match self.values.get(name.to_ascii_lowercase().as_str()) {
                Some(value) => Ok(value.clone()),
                None => Err(unknown(name)),
            },
        }
    }

    /// All settings with their values, in order.
    pub(crate) fn all(&self) -> Vec<(String, String)> {
        let known = DEFINITIONS
            .iter()
            .map(|definition| (definition.name.to_owned(), self.value(definition)));
        let own = self.values.iter().filter(|(name, _)| name.contains('.'));
        known
            .chain(own.map(|(name, value)| (name.to_string(), value.clone())))
            .collect()
    }

    fn value(&self, definition: &Definition) -> String {
        if let Some(value) = self.values.get(definition.name) {
            return value.clone();
        }
        let on_off = |on: bool| if on { "on" } else { "off" }.to_owned();
        if let Some(transaction) = &self.transaction {
            match definition.name {
                "transaction_isolation" => return transaction.isolation.to_owned(),
                "transaction_read_only" => return on_off(transaction.read_only),
                "transaction_deferrable" if transaction.deferrable.is_some() => {
                    return on_off(transaction.deferrable == Some(true));
                }
                _ => {}
            }
        }
        match definition.name {
            "session_authorization" => self.identity.user.clone(),
            "max_connections" => self.identity.connections_max.to_string(),
            "port" => self.identity.port.to_string(),
            "transaction_isolation" => self.identity.isolation.to_owned(),
            "transaction_read_only" => self
                .get("default_transaction_read_only")
                .unwrap_or_default(),
            _ => definition.default.to_owned(),
        }
    }

    /// Sets a setting; returns the change if the client is told of it.
    ///
    /// # Errors
    /// 42704 for a name that is not known, 22023 for a value that it does not take, 55P02 for one that cannot be
    /// changed, 0A000 for a value that is PostgreSQL's and not supported.
    pub(crate) fn set(&mut self, name: &str, value: &str) -> Result<Reported, Box<ErrorFields>> {
        let Some(definition) = definition(name) else {
            return self.set_own(name, value);
        };
        let checked = definition.check(value)?;
        match definition.name {
            "TimeZone" => {
                self.zone = TimeZone::named(&checked).map_err(|_| definition.invalid(value))?;
            }
            "statement_timeout" => self.statement_timeout = timeout(&checked),
            "idle_in_transaction_session_timeout" => {
                self.idle_in_transaction_timeout = timeout(&checked);
            }
            "lock_timeout" => self.lock_timeout = timeout(&checked),
            _ => {}
        }
        let before = self.value(definition);
        if checked == definition.default {
            self.values.remove(definition.name);
        } else {
            self.values
                .insert(Cow::Borrowed(definition.name), checked.clone());
        }
        Ok((definition.reported && before != checked).then_some((definition.name, checked)))
    }

    /// Sets a setting of the client's own.
    fn set_own(&mut self, name: &str, value: &str) -> Result<Reported, Box<ErrorFields>> {
        if name
            .get(..OURS.len())
            .is_some_and(|of| of.eq_ignore_ascii_case(OURS))
        {
            return Err(unknown(name));
        }
        let mut parts = name.split('.');
        let is_name = |part: &str| {
            part.starts_with(|c: char| c.is_alphabetic() || c == '_')
                && part
                    .chars()
                    .all(|c| c.is_alphanumeric() || c == '_' || c == '$')
        };
        if name.contains('.') && parts.all(is_name) {
            if self.values.len() >= OWN_MAX {
                let message = format!("a connection has at most {OWN_MAX} settings of its own");
                return Err(error("54000", message));
            }
            self.values
                .insert(Cow::Owned(name.to_ascii_lowercase()), value.to_owned());
            return Ok(None);
        }
        Err(unknown(name))
    }

    /// Sets a setting back to its value at start-up.
    ///
    /// # Errors
    /// As [`Settings::set`].
    pub(crate) fn reset(&mut self, name: &str) -> Result<Reported, Box<ErrorFields>> {
        match definition(name) {
            Some(definition) => {
                if matches!(definition.kind, Fixed) {
                    return Err(definition.cannot_change());
                }
                let value = match self.initial.get(definition.name) {
                    Some(value) => value.clone(),
                    None => definition.default.to_owned(),
                };
                self.set(definition.name, &value)
            }
            None => {
                let name = name.to_ascii_lowercase();
                match self.initial.get(name.as_str()).cloned() {
                    Some(value) => self.values.insert(Cow::Owned(name), value),
                    None => self.values.remove(name.as_str()),
                };
                Ok(None)
            }
        }
    }

    /// Sets every setting back to its value at start-up; returns the changes that the client is told of.
    pub(crate) fn reset_all(&mut self) -> Vec<(&'static str, String)> {
        // What was changed to its default has no value of its own, and may have had another one at start-up.
        let changed = self.values.keys().chain(self.initial.keys());
        let names: BTreeSet<String> = changed.map(ToString::to_string).collect();
        let mut changes = Vec::new();
        for name in names {
            // What cannot be changed has not been.
            changes.extend(self.reset(&name).ok().flatten());
        }
        changes
    }
}

/// A time limit; none for 0.
fn timeout(checked: &str) -> Option<Duration> {
    let milliseconds = milliseconds(checked).unwrap_or(0);
    (milliseconds > 0).then(|| Duration::from_millis(milliseconds as u64))
}

/// The default of `idle_in_transaction_session_timeout`: PostgreSQL has none, and lets a client that has gone silent
/// hold its locks for ever.
const IDLE_IN_TRANSACTION_TIMEOUT: Duration = Duration::from_secs(300);

/// The most settings of its own that a connection may have.
const OWN_MAX: usize = 1_000;

impl Definition {
    fn invalid(&self, value: &str) -> Box<ErrorFields> {
        let message = format!("invalid value for parameter \"{}\": \"{value}\"", self.name);
        let mut fields = error("22023", message);
        if let Enum(values) = self.kind {
            fields.hint = Some(format!("Available values: {}.", values.join(", ")));
        }
        fields
    }

    fn unsupported(&self, value: &str, supported: &str) -> Box<ErrorFields> {
        let mut fields = error("0A000", format!("{} = {value} is not supported", self.name));
        fields.hint = Some(format!("Use {supported}."));
        fields
    }

    fn cannot_change(&self) -> Box<ErrorFields> {
        error(
            "55P02",
            format!("parameter \"{}\" cannot be changed", self.name),
        )
    }

    /// A value as it is kept.
    fn check(&self, value: &str) -> Result<String, Box<ErrorFields>> {
        let invalid = || self.invalid(value);
        match &self.kind {
            Fixed => Err(self.cannot_change()),
            Bool => boolean(value).map(str::to_owned).ok_or_else(|| {
                error(
                    "22023",
                    format!("parameter \"{}\" requires a Boolean value", self.name),
                )
            }),
            Enum(values) => {
                let lower = value.to_ascii_lowercase();
                let found = values.iter().find(|known| **known == lower);
                let found = found.or_else(|| {
                    let on_off = boolean(value)?;
                    values.iter().find(|known| **known == on_off)
                });
                found.map(|found| (*found).to_owned()).ok_or_else(invalid)
            }
            Only(values) => {
                let is_right = |known: &&str| known.eq_ignore_ascii_case(value);
                let is_on_off = boolean(value).is_some_and(|value| values[0] == value);
                if values.iter().any(is_right) || is_on_off {
                    return Ok(values[0].to_owned());
                }
                Err(self.unsupported(value, values[0]))
            }
            Integer(least, most) => {
                let number: i64 = value.trim().parse().map_err(|_| invalid())?;
                if !(*least..=*most).contains(&number) {
                    let message = format!(
                        "{number} is outside the valid range for parameter \"{}\" ({least} .. {most})",
                        self.name
                    );
                    return Err(error("22023", message));
                }
                Ok(number.to_string())
            }
            Real => {
                let number: f64 = value.trim().parse().map_err(|_| invalid())?;
                Ok(number.to_string())
            }
            Milliseconds => {
                let amount = milliseconds(value).ok_or_else(invalid)?;
                if !(0..=i64::from(i32::MAX)).contains(&amount) {
                    let message = format!(
                        "{amount} ms is outside the valid range for parameter \"{}\" (0 .. 2147483647)",
                        self.name
                    );
                    return Err(error("22023", message));
                }
                Ok(shown_milliseconds(amount))
            }
            Kilobytes => {
                let digits = value
                    .trim_end_matches(|c: char| c.is_ascii_alphabetic())
                    .trim();
                let is_number = digits.parse::<u64>().is_ok();
                let unit = value[digits.len()..].trim();
                let is_unit = ["", "B", "kB", "MB", "GB", "TB"].contains(&unit);
                (is_number && is_unit)
                    .then(|| value.to_owned())
                    .ok_or_else(invalid)
            }
            Text => {
                // Longer ones are cut, as PostgreSQL's names are.
                let is_name = self.name == "application_name";
                match value.char_indices().nth(63) {
                    Some((at, _)) if is_name => Ok(value[..at].to_owned()),
                    _ => Ok(value.to_owned()),
                }
            }
            Kind::TimeZone => match TimeZone::named(value.trim()) {
                Ok(zone) => Ok(zone.name().to_owned()),
                Err(_) => Err(invalid()),
            },
            DateStyle => date_style(value, self.name),
            Encoding => match encoding(value) {
                Some(name @ ("UTF8" | "SQL_ASCII")) => Ok(name.to_owned()),
                Some(_) => Err(self.unsupported(value, "UTF8")),
                None => Err(invalid()),
            },
        }
    }
}

/// ISO with an order of day, month and year. The order decides how `01/02/2026` is read: only MDY is supported.
fn date_style(value: &str, name: &str) -> Result<String, Box<ErrorFields>> {
    for word in value.split(',') {
        match word.trim().to_ascii_uppercase().as_str() {
            "ISO" | "MDY" | "US" | "NONEURO" | "NONEUROPEAN" | "DEFAULT" => {}
            "GERMAN" | "SQL" | "POSTGRES" | "DMY" | "YMD" | "EURO" | "EUROPEAN" => {
                let message = format!("{name} = {value} is not supported");
                let mut fields = error("0A000", message);
                fields.hint = Some("Use ISO, MDY.".to_owned());
                return Err(fields);
            }
            _ => {
                let message = format!("invalid value for parameter \"{name}\": \"{value}\"");
                return Err(error("22023", message));
            }
        }
    }
    Ok("ISO, MDY".to_owned())
}

/// PostgreSQL's name of an encoding that a client may name, from any form of it. Under `SQL_ASCII` nothing is
/// converted: a client without a locale asks for it, and gets and sends UTF-8.
fn encoding(value: &str) -> Option<&'static str> {
    const ENCODINGS: [&str; 44] = [
        "SQL_ASCII",
        "UTF8",
        "BIG5",
        "EUC_CN",
        "EUC_JIS_2004",
        "EUC_JP",
        "EUC_KR",
        "EUC_TW",
        "GB18030",
        "GBK",
        "ISO_8859_5",
        "ISO_8859_6",
        "ISO_8859_7",
        "ISO_8859_8",
        "JOHAB",
        "KOI8R",
        "KOI8U",
        "LATIN1",
        "LATIN10",
        "LATIN2",
        "LATIN3",
        "LATIN4",
        "LATIN5",
        "LATIN6",
        "LATIN7",
        "LATIN8",
        "LATIN9",
        "MULE_INTERNAL",
        "SHIFT_JIS_2004",
        "SJIS",
        "UHC",
        "WIN1250",
        "WIN1251",
        "WIN1252",
        "WIN1253",
        "WIN1254",
        "WIN1255",
        "WIN1256",
        "WIN1257",
        "WIN1258",
        "WIN866",
        "WIN874",
        "ISO88591",
        "WINDOWS1252",
    ];
    let plain = |name: &str| -> String {
        let kept = name.chars().filter(char::is_ascii_alphanumeric);
        kept.map(|c| c.to_ascii_lowercase()).collect()
    };
    let given = plain(value);
    if given == "unicode" {
        return Some("UTF8");
    }
    ENCODINGS.into_iter().find(|name| plain(name) == given)
}

/// A truth value as SHOW writes it; PostgreSQL takes any unambiguous beginning of a word.
fn boolean(value: &str) -> Option<&'static str> {
    let value = value.trim().to_ascii_lowercase();
    let begins = |word: &str, least: usize| value.len() >= least && word.starts_with(&value);
    if value == "1" || begins("true", 1) || begins("yes", 1) || value == "on" {
        Some("on")
    } else if value == "0" || begins("false", 1) || begins("no", 1) || begins("off", 2) {
        Some("off")
    } else {
        None
    }
}

/// Milliseconds from a number with a unit.
fn milliseconds(value: &str) -> Option<i64> {
    let value = value.trim();
    let end = value
        .find(|c: char| c.is_ascii_alphabetic() || c.is_whitespace())
        .unwrap_or(value.len());
    let factor = match value[end..].trim() {
        "" | "ms" => 1.0,
        "us" => 0.001,
        "s" => 1_000.0,
        "min" => 60_000.0,
        "h" => 3_600_000.0,
        "d" => 86_400_000.0,
        _ => return None,
    };
    let number: f64 = value[..end].parse().ok()?;
    let amount = (number * factor).round();
    (amount.abs() < 9e15).then_some(amount as i64)
}

/// Milliseconds in the largest unit that divides them, as SHOW writes them.
fn shown_milliseconds(amount: i64) -> String {
    const UNITS: [(i64, &str); 4] = [
        (86_400_000, "d"),
        (3_600_000, "h"),
        (60_000, "min"),
        (1_000, "s"),
    ];
    if amount == 0 {
        return "0".to_owned();
    }
    match UNITS.iter().find(|(unit, _)| amount % unit == 0) {
        Some((unit, name)) => format!("{}{name}", amount / unit),
        None => format!("{amount}ms"),
    }
}

fn unknown(name: &str) -> Box<ErrorFields> {
    error(
        "42704",
        format!("unrecognized configuration parameter \"{name}\""),
    )
}

/// The settings in the start-up parameter `options`: `-c name=value` and `--name=value`, with backslashes before
/// spaces.
fn options(text: &str) -> Result<Vec<(String, String)>, Box<ErrorFields>> {
    let mut words = vec![String::new()];
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => words
                .last_mut()
                .expect("it has one")
                .extend(characters.next()),
            c if c.is_whitespace() => words.push(String::new()),
            c => words.last_mut().expect("it has one").push(c),
        }
    }
    let mut words = words.into_iter().filter(|word| !word.is_empty());
    let mut found = Vec::new();
    while let Some(word) = words.next() {
        let assignment = if word == "-c" {
            words.next()
        } else {
            word.strip_prefix("--")
                .or_else(|| word.strip_prefix("-c"))
                .map(str::to_owned)
        };
        let pair = assignment.as_deref().and_then(|it| it.split_once('='));
        let Some((name, value)) = pair else {
            let message = format!("invalid command-line argument for server process: {word}");
            return Err(error("42601", message));
        };
        found.push((name.replace('-', "_"), value.to_owned()));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        Settings::new(Identity {
            user: "ann".to_owned(),
            database: "anabranch".to_owned(),
            connections_max: 500,
            port: 5433,
            isolation: "serializable",
        })
    }

    #[test]
    fn known_settings_keep_their_values_in_postgresqls_form() {
        let mut settings = settings();
        for (name, value, shown) in [
            ("statement_timeout", "2000", "2s"),
            ("STATEMENT_TIMEOUT", "90 s", "90s"),
            ("statement_timeout", "1min", "1min"),
            ("statement_timeout", "1500", "1500ms"),
            ("jit", "fal", "off"),
            ("row_security", "YES", "on"),
            ("extra_float_digits", "3", "3"),
            ("client_encoding", "utf-8", "UTF8"),
            ("datestyle", "iso", "ISO, MDY"),
            ("application_name", "a b", "a b"),
            (
                "default_transaction_isolation",
                "SERIALIZABLE",
                "serializable",
            ),
            ("time zone", "europe/berlin", "Europe/Berlin"),
            ("app.user", "7", "7"),
        ] {
            let set = settings.set(name, value);
            assert!(set.is_ok(), "{name}: {set:?}");
            assert_eq!(settings.get(name).unwrap(), shown, "{name}");
        }
        assert_eq!(
            settings.statement_timeout(),
            Some(Duration::from_millis(1500))
        );
        settings.reset_all();
        assert_eq!(settings.statement_timeout(), None);
        assert_eq!(settings.get("TimeZone").unwrap(), "UTC");
        assert_eq!(settings.get("app.user").unwrap_err().code, "42704");
    }

    #[test]
    fn what_is_not_honoured_is_refused() {
        let mut settings = settings();
        for (name, value, code) in [
            ("nonsense", "1", "42704"),
            ("server_version", "16", "55P02"),
            ("transaction_isolation", "serializable", "55P02"),
            ("client_encoding", "LATIN1", "0A000"),
            ("DateStyle", "German", "0A000"),
            ("DateStyle", "ISO, DMY", "0A000"),
            ("DateStyle", "x", "22023"),
            ("standard_conforming_strings", "off", "0A000"),
            ("bytea_output", "escape", "0A000"),
            ("extra_float_digits", "0", "22023"),
            ("statement_timeout", "-1", "22023"),
            ("statement_timeout", "5 parsecs", "22023"),
            ("TimeZone", "Atlantis", "22023"),
            ("client_min_messages", "loud", "22023"),
            ("jit", "maybe", "22023"),
        ] {
            let refused = settings.set(name, value).unwrap_err();
            assert_eq!(refused.code, code, "{name} = {value}");
        }
    }

    #[test]
    fn reported_settings_are_reported_once_a_change() {
        let mut settings = settings();
        let change = settings.set("application_name", "psql").unwrap();
        assert_eq!(change, Some(("application_name", "psql".to_owned())));
        assert_eq!(settings.set("application_name", "psql").unwrap(), None);
        assert_eq!(settings.set("work_mem", "8MB").unwrap(), None);
        let change = settings.reset("application_name").unwrap();
        assert_eq!(change, Some(("application_name", String::new())));
    }

    #[test]
    fn options_are_read_from_the_start_up_message() {
        let mut settings = settings();
        let options = r"-c statement_timeout=5s --application-name=a\ b -cjit=off";
        let start = [("options".to_owned(), options.to_owned())];
        settings.start(&start).unwrap();
        for (name, shown) in [
            ("statement_timeout", "5s"),
            ("application_name", "a b"),
            ("jit", "off"),
        ] {
            assert_eq!(settings.get(name).unwrap(), shown);
        }
        settings.set("jit", "on").unwrap();
        settings.reset_all();
        assert_eq!(
            settings.get("jit").unwrap(),
            "off",
            "it is reset to the start"
        );
        assert!(
            settings
                .start(&[("options".to_owned(), "-x".to_owned())])
                .is_err()
        );
    }

    #[test]
    fn a_default_is_a_value_of_its_setting() {
        for definition in DEFINITIONS {
            if !matches!(definition.kind, Fixed) {
                let checked = definition.check(definition.default);
                assert_eq!(
                    checked.ok().as_deref(),
                    Some(definition.default),
                    "{}",
                    definition.name
                );
            }
        }
    }
}
