//! What calls do, judged by their names: the conventions of the drivers and libraries that programs use.

use crate::{
    collections,
    language::Language,
    syntax::{Expression, ExpressionKind},
};

fn lower(name: &str) -> String {
    name.trim_start_matches('$').to_ascii_lowercase()
}

/// Prepares a statement without running it.
pub(crate) fn prepares(name: &str) -> bool {
    let name = lower(name);
    name.starts_with("prepare")
        || name.starts_with("new ")
        || name.starts_with("getprepared")
        || name.ends_with("prepare")
        || matches!(
            name.as_str(),
            "createquery"
                | "createnativequery"
                | "createsqlquery"
                | "createupdate"
                | "createscript"
                | "createbatch"
                | "preparex"
                | "preparenamed"
                | "rebind"
                | "text"
                | "sql"
                | "rawquery"
                | "mysqli_prepare"
                | "pg_prepare"
                | "bindparams"
        )
}

/// Binds values to a prepared statement.
pub(crate) fn binds(name: &str) -> bool {
    let name = lower(name);
    let sets = name.starts_with("set")
        && name != "set"
        && !name.contains("fetch")
        && !name.contains("timeout");
    sets && !matches!(
        name.as_str(),
        "setmaxrows" | "setautocommit" | "setcursorname" | "setpoolable"
    ) || name.starts_with("bind") && !name.contains("result")
        || name == "mysqli_stmt_bind_param"
        || name == "registeroutparameter"
        || name == "addvalue"
        || name == "params"
        || name == "param"
}

/// Executes a prepared statement.
pub(crate) fn executes(name: &str) -> bool {
    let name = lower(name);
    name.starts_with("exec")
        || name.starts_with("query")
        || name.starts_with("fetch")
        || name.starts_with("getresultlist")
        || name.starts_with("getsingleresult")
        || name.ends_with("execute")
        || matches!(
            name.as_str(),
            "run"
                | "all"
                | "get"
                | "each"
                | "iterate"
                | "pluck"
                | "addbatch"
                | "update"
                | "list"
                | "one"
                | "first"
                | "findone"
                | "mapto"
                | "map"
                | "single"
                | "optional"
                | "stream"
                | "then"
                | "select"
                | "queryrow"
        )
}

/// Logs, prints or throws a text, and does not run it.
pub(crate) fn reports_text(name: &str, callee: &Expression) -> bool {
    const NAMES: [&str; 20] = [
        "print",
        "println",
        "printf",
        "log",
        "debug",
        "info",
        "warn",
        "warning",
        "error",
        "trace",
        "fatal",
        "echo",
        "assert",
        "expect",
        "error_log",
        "var_dump",
        "startspan",
        "fprintf",
        "equals",
        "errorf",
    ];
    let name = lower(name);
    let of_log = callee.path().is_some_and(|path| {
        let path = path.to_ascii_lowercase();
        let first = path.split('.').next().unwrap_or_default();
        matches!(
            first,
            "log" | "logger" | "logging" | "console" | "slog" | "assert"
        )
    });
    of_log
        || NAMES.contains(&name.as_str())
        || name.ends_with("exception")
        || name.ends_with("error")
}

/// Stores a text, or builds another from it.
pub(crate) fn builds_text(name: &str) -> bool {
    matches!(
        lower(name).as_str(),
        "append"
            | "push"
            | "add"
            | "concat"
            | "join"
            | "replace"
            | "replaceall"
            | "contains"
            | "startswith"
            | "endswith"
            | "indexof"
            | "test"
            | "match"
            | "put"
            | "len"
            | "length"
            | "strlen"
            | "setattribute"
            | "writestring"
            | "explode"
            | "split"
            | "isinstance"
    )
}

/// Runs its text as SQL on any receiver.
pub(crate) fn always_runs_sql(name: &str) -> bool {
    matches!(
        lower(name).as_str(),
        "executequery"
            | "executeupdate"
            | "executelargeupdate"
            | "preparestatement"
            | "preparecall"
            | "mysqli_query"
            | "mysqli_multi_query"
            | "mysqli_prepare"
            | "mysqli_real_query"
            | "pg_query"
            | "pg_query_params"
            | "pg_prepare"
            | "sqlite_query"
            | "queryrow"
            | "queryrowcontext"
            | "querycontext"
            | "execcontext"
            | "preparecontext"
            | "executemany"
            | "executescript"
            | "createnativequery"
            | "createsqlquery"
            | "queryforobject"
            | "queryforlist"
            | "queryformap"
            | "queryforrowset"
            | "exec_driver_sql"
            | "queryrawunsafe"
            | "executerawunsafe"
            | "mysql_query"
    )
}

/// Runs its text as SQL if the receiver leads to a database.
pub(crate) fn may_run_sql(name: &str) -> bool {
    let name = lower(name);
    always_runs_sql(&name)
        || prepares(&name) && !name.starts_with("new ") && name != "text" && name != "params"
        || matches!(
            name.as_str(),
            "execute"
                | "query"
                | "exec"
                | "run"
                | "raw"
                | "all"
                | "get"
                | "each"
                | "one"
                | "none"
                | "any"
                | "many"
                | "oneornone"
                | "manyornone"
                | "update"
                | "batchupdate"
                | "select"
                | "insert"
                | "delete"
                | "statement"
                | "unprepared"
                | "fetch"
                | "fetchrow"
                | "fetchval"
                | "scalar"
                | "scalars"
                | "unsafe"
                | "queryraw"
                | "executeraw"
                | "queryx"
                | "mustexec"
                | "namedexec"
                | "namedquery"
                | "namedexeccontext"
                | "querysingle"
                | "selectone"
                | "fetchall"
                | "fetchone"
                | "read_sql"
                | "multi_query"
                | "real_query"
                | "getrow"
                | "getall"
                | "getone"
        )
}

/// Takes SQL only, if the receiver leads to a database.
pub(crate) fn takes_sql(name: &str) -> bool {
    matches!(
        lower(name).as_str(),
        "execute"
            | "query"
            | "exec"
            | "prepare"
            | "raw"
            | "executescript"
            | "multi_query"
            | "real_query"
            | "unprepared"
    )
}

/// Whether a name is usual for a connection, statement, cursor or transaction.
pub(crate) fn is_connection(name: &str) -> bool {
    const ENDS: [&str; 27] = [
        "conn",
        "connection",
        "cursor",
        "cur",
        "db",
        "database",
        "tx",
        "txn",
        "trx",
        "transaction",
        "client",
        "pool",
        "stmt",
        "statement",
        "session",
        "pdo",
        "mysqli",
        "knex",
        "dbh",
        "jdbc",
        "jdbctemplate",
        "engine",
        "handle",
        "querier",
        "sqlx",
        "template",
        "entitymanager",
    ];
    let name = lower(name).trim_start_matches('_').to_owned();
    ENDS.iter().any(|end| name.ends_with(end))
        || matches!(name.as_str(), "sql" | "c" | "q" | "em" | "con" | "link")
}

/// Whether a type is a connection, cursor, session or transaction.
pub(crate) fn is_connection_type(of_type: &str) -> bool {
    const TYPES: [&str; 30] = [
        "Connection",
        "sql.Tx",
        "sql.DB",
        "sql.Conn",
        "sqlx.Tx",
        "sqlx.DB",
        "PoolClient",
        "ClientBase",
        "Client",
        "PDO",
        "mysqli",
        "Cursor",
        "cursor",
        "Session",
        "Handle",
        "EntityManager",
        "pgx.Tx",
        "Knex",
        "Transaction",
        "Querier",
        "DSLContext",
        "Jdbi",
        "xorm.Engine",
        "gorm.DB",
        "bun.DB",
        "bun.Tx",
        "pg.DB",
        "pg.Tx",
        "goqu.Certainty",
        "dbr.Tx",
    ];
    // Clients of other services.
    const OTHERS: [&str; 6] = ["redis", "http", "grpc", "amqp", "s3.", "smtp"];
    let others = lower(of_type);
    TYPES.iter().any(|t| of_type.contains(t)) && !OTHERS.iter().any(|t| others.contains(t))
}

/// The methods that Python's `with` calls before and after its body.
pub(crate) const ENTERS: &str = "__enter__";
pub(crate) const LEAVES: &str = "__exit__";
/// The call that stands for `with connection`, which begins a transaction.
pub(crate) const BEGINS: &str = "with connection";
/// The calls that stand for PHP's `$$name`, and for `include` and `require`.
pub(crate) const ANY_VARIABLE: &str = "$$";
pub(crate) const INCLUDES: &str = "include";

/// The call that stands for `goto`.
pub(crate) const JUMPS: &str = "goto";

/// Whether a decorator makes a method an accessor.
pub(crate) fn is_property(decorator: &Expression) -> bool {
    let name = lower(decorator.last_name().unwrap_or_default());
    name.ends_with("property") || matches!(name.as_str(), "setter" | "getter")
}

/// Runs a text or another file as source code (PHP, Python, JavaScript).
pub(crate) fn runs_source(name: &str) -> bool {
    matches!(name, "eval" | "exec" | INCLUDES | "new Function")
}

/// Assigns to variables that the source does not name.
pub(crate) fn sets_dynamic_variables(name: &str) -> bool {
    matches!(name, "extract" | "parse_str" | "eval" | ANY_VARIABLE)
}

/// A function that writes rows from column names and values.
pub(crate) fn writes_rows(name: &str) -> bool {
    matches!(
        name,
        "pg_update" | "pg_insert" | "pg_delete" | "pg_copy_from" | "pg_put_line"
    )
}

/// Publishes an event to listeners.
pub(crate) fn publishes(name: &str) -> bool {
    matches!(
        lower(name).as_str(),
        "publishevent" | "fireevent" | "publish" | "fire"
    )
}

/// Whether an annotation registers a method as an event listener.
pub(crate) fn listens(annotation: &Expression) -> bool {
    let name = lower(annotation.last_name().unwrap_or_default());
    name.ends_with("listener") || name.ends_with("subscribe") || name.ends_with("eventhandler")
}

/// Whether a class is a mapper or repository with methods that a library implements; their SQL is elsewhere, or
/// generated.
pub(crate) fn is_mapper(class: &str) -> bool {
    let name = lower(class);
    ["mapper", "dao", "repository"]
        .iter()
        .any(|end| name.ends_with(end))
}

/// Opens a new connection or transaction.
pub(crate) fn opens(name: &str) -> bool {
    matches!(
        lower(name).as_str(),
        "getconnection"
            | "connect"
            | "begin"
            | "begintx"
            | "beginx"
            | "begintxx"
            | "begintransaction"
            | "transaction"
            | "new pdo"
            | "new mysqli"
            | "mysqli_connect"
            | "pg_connect"
            | "setautocommit"
            | "start_transaction"
            | "starttransaction"
    )
}

/// Begins a transaction, on a new or an open connection.
pub(crate) fn begins(name: &str) -> bool {
    match lower(name).as_str() {
        "getconnection" | "connect" | "new pdo" | "new mysqli" | "mysqli_connect"
        | "pg_connect" => false,
        "atomic" | BEGINS => true,
        name => opens(name),
    }
}

/// Whether a call runs its callback in a transaction, judged by its receiver and its name.
pub(crate) fn runs_in_a_transaction(on: Option<&Expression>, name: &str) -> bool {
    let is_one = |name: &str| {
        let name = lower(name);
        name.contains("transaction")
            || matches!(name.as_str(), "intx" | "withtx" | "runintx" | "tx")
    };
    is_one(name) || begins(name) || on.and_then(Expression::last_name).is_some_and(is_one)
}

/// Whether an annotation or a decorator runs the whole function in one transaction.
pub(crate) fn makes_a_transaction(annotation: &Expression) -> bool {
    let name = lower(annotation.last_name().unwrap_or_default());
    let name = name.trim_start_matches('@');
    matches!(name, "atomic" | "commit_on_success" | "unit_of_work")
        || name.ends_with("transactional")
        || name.ends_with("transaction")
}

/// Whether a name is a pool or data source: each statement is a transaction of its own unless one was begun.
pub(crate) fn is_pool(name: &str) -> bool {
    const ENDS: [&str; 8] = [
        "pool",
        "datasource",
        "jdbctemplate",
        "jdbcoperations",
        "jdbcclient",
        "pdo",
        "mysqli",
        "namedparameterjdbctemplate",
    ];
    let name = lower(name);
    ENDS.iter().any(|end| name.ends_with(end))
        || matches!(name.as_str(), "ds" | "jdbc" | "template")
}

pub(crate) fn commits(name: &str) -> bool {
    matches!(
        lower(name).as_str(),
        "commit" | "mysqli_commit" | "pg_commit"
    )
}

pub(crate) fn rolls_back(name: &str) -> bool {
    matches!(
        lower(name).as_str(),
        "rollback" | "mysqli_rollback" | "abort" | "setrollbackonly"
    )
}

/// Calls its callback once for each element.
pub(crate) fn calls_repeatedly(name: &str) -> bool {
    matches!(
        lower(name).as_str(),
        "map"
            | "foreach"
            | "each"
            | "filter"
            | "reduce"
            | "flatmap"
            | "array_map"
            | "array_walk"
            | "some"
            | "every"
            | "times"
            | "retry"
            | "withretry"
    )
}

/// Calls its callback once, immediately.
pub(crate) fn calls_once(name: &str) -> bool {
    let name = lower(name);
    name.contains("transaction")
        || name.starts_with("intx")
        || matches!(
            name.as_str(),
            "begin"
                | "withtx"
                | "runintx"
                | "tx"
                | "task"
                | "execute"
                | "executewithoutresult"
                | "call"
                | "withconnection"
                | "usetransaction"
                | "inconnection"
                | "doinsession"
        )
        || calls_by_name(&name)
}

/// PHP functions that call a function by name.
pub(crate) fn calls_by_name(name: &str) -> bool {
    matches!(
        lower(name).as_str(),
        "call_user_func" | "call_user_func_array" | "array_map" | "array_walk"
    )
}

/// Writes objects through generated SQL (an object-relational mapper), or copies rows without SQL.
pub(crate) fn is_orm_write(receiver: &Expression, name: &str) -> bool {
    let path = receiver.path().unwrap_or_default().to_ascii_lowercase();
    let of = path.rsplit('.').next().unwrap_or_default();
    let name = lower(name);
    match name.as_str() {
        "create" | "update" | "delete" | "bulk_create" | "bulk_update" | "get_or_create"
        | "update_or_create" | "acreate" | "aupdate" | "adelete"
            if is_manager(receiver) =>
        {
            true
        }
        "persist" | "merge" | "remove" | "refresh" => {
            matches!(of, "em" | "entitymanager" | "session" | "manager" | "orm")
                || of.ends_with("entitymanager")
        }
        "add_all" | "bulk_save_objects" | "bulk_insert_mappings" => {
            of.ends_with("session") || of == "db"
        }
        "add" | "delete" | "saveorupdate" if path.ends_with("session") => true,
        "save" | "saveall" | "deleteall" | "deletebyid" | "saveandflush" | "findbyid" => {
            of.ends_with("repository") || of.ends_with("repo")
        }
        "create" | "createmany" | "update" | "updatemany" | "upsert" | "delete" | "deletemany"
        | "findunique" | "findmany" | "findfirst" => path.contains("prisma"),
        "copyfrom"
        | "copy_from"
        | "copy_expert"
        | "copy_records_to_table"
        | "copy_to_table"
        | "copyin"
        | "updaterow"
        | "insertrow"
        | "deleterow"
        | "acceptchanges"
        | "to_sql"
        | "runscript" => true,
        _ => false,
    }
}

/// Whether it is a model's manager, or a query made from one: `Account.objects.filter(id=1)`.
fn is_manager(receiver: &Expression) -> bool {
    match &receiver.kind {
        ExpressionKind::Member(of, name) => name == "objects" || is_manager(of),
        ExpressionKind::Call { callee, .. } => is_manager(callee),
        _ => false,
    }
}

/// How certain it is that a name leads to a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Certainty {
    No,
    /// The name is also used for other things.
    Possible,
    Certain,
}

/// Whether a name leads to a database: connections, transactions, and the entry points of libraries that generate
/// SQL.
pub(crate) fn database_certainty(name: &str) -> Certainty {
    const SURE: [&str; 28] = [
        "db",
        "database",
        "tx",
        "txn",
        "trx",
        "cursor",
        "cur",
        "pdo",
        "mysqli",
        "knex",
        "dbh",
        "jdbc",
        "jdbctemplate",
        "entitymanager",
        "hibernatetemplate",
        "sqlx",
        "querier",
        "prisma",
        "sequelize",
        "kysely",
        "drizzle",
        "queryrunner",
        "datasource",
        "repository",
        "jdbcinsert",
        "dsl",
        "dslcontext",
        "supabase",
    ];
    // Excludes constants, and contexts that Go and others pass through all calls.
    let is_constant = name.len() > 3 && !name.contains(char::is_lowercase);
    let name = lower(name).trim_start_matches('_').to_owned();
    let name = name.strip_prefix("new ").unwrap_or(&name);
    let is_others = [
        "ctx",
        "rdb",
        "redis",
        "resttemplate",
        "redistemplate",
        "http_session",
        "httpsession",
        "httpclient",
    ];
    if is_constant || is_others.iter().any(|end| name.ends_with(end)) {
        return Certainty::No;
    }
    if SURE.iter().any(|end| name.ends_with(end)) || matches!(name, "em" | "objects" | "orm") {
        return Certainty::Certain;
    }
    match is_connection(name) || matches!(name, "ds" | "qr" | "s" | "manager" | "repo") {
        true => Certainty::Possible,
        false => Certainty::No,
    }
}

/// Begins like the name of a write; on a database it may write.
pub(crate) fn writes(name: &str) -> bool {
    const STARTS: [&str; 31] = [
        "insert",
        "update",
        "delete",
        "remove",
        "create",
        "save",
        "upsert",
        "persist",
        "merge",
        "decrement",
        "increment",
        "bulk",
        "copy",
        "truncate",
        "destroy",
        "replace",
        "flush",
        "store",
        "add",
        "put",
        "exec",
        "run",
        "apply",
        "batch",
        "restore",
        "alter",
        "mass",
        "multi",
        "findorcreate",
        "firstorcreate",
        "getorcreate",
    ];
    // These prepare or report something.
    const OTHERS: [&str; 20] = [
        "createstatement",
        "createcommand",
        "createquerybuilder",
        "createcriteria",
        "createconnection",
        "createpool",
        "createarray",
        "createblob",
        "createclob",
        "createstruct",
        "createexpression",
        "addlistener",
        "addevent",
        "addr",
        "addscalar",
        "addorder",
        "additional",
        "storage",
        "runtime",
        "executor",
    ];
    let name = lower(name).replace('_', "");
    let is_word = matches!(
        name.as_str(),
        "del"
            | "patch"
            | "patchandfetch"
            | "patchandfetchbyid"
            | "trash"
            | "trashall"
            | "wipe"
            | "nuke"
            | "relate"
            | "unrelate"
            | "autoexecute"
    );
    (is_word || STARTS.iter().any(|start| name.starts_with(start)))
        && !OTHERS.iter().any(|start| name.starts_with(start))
        && !["updated", "created", "deleted", "saved", "removed", "added"]
            .iter()
            .any(|past| name.starts_with(past))
}

/// The names of methods by which active records save themselves: `account.save()`.
pub(crate) fn is_active_record_write(name: &str) -> bool {
    let name = lower(name).replace('_', "");
    [
        "save",
        "destroy",
        "delete",
        "remove",
        "update",
        "insert",
        "create",
        "upsert",
        "persist",
        "increment",
        "decrement",
        "bulk",
        "flush",
        "exec",
        "findorcreate",
        "firstorcreate",
        "getorcreate",
        "store",
        "patch",
        "trash",
        "relate",
        "unrelate",
    ]
    .iter()
    .any(|start| name.starts_with(start))
        && writes(&name)
}

/// The names of active record writes that hardly anything else uses, for receivers of unknown class.
pub(crate) fn is_unambiguous_active_record_write(name: &str) -> bool {
    matches!(
        lower(name).replace('_', "").as_str(),
        "save"
            | "saveorfail"
            | "saveasync"
            | "saveandflush"
            | "saveorupdate"
            | "destroy"
            | "bulkcreate"
            | "bulkupdate"
            | "bulkinsert"
            | "bulksave"
            | "increment"
            | "decrement"
            | "upsert"
            | "findorcreate"
            | "updateorcreate"
            | "firstorcreate"
            | "getorcreate"
            | "insertmany"
            | "createmany"
            | "updatemany"
            | "deletemany"
            | "executebatch"
    )
}

/// Begins like the name of a read, or of a call that prepares something.
pub(crate) fn reads(name: &str) -> bool {
    const STARTS: [&str; 16] = [
        "get", "fetch", "read", "find", "select", "list", "count", "exists", "is", "has", "cursor",
        "scroll", "describe", "prepare", "set", "quote",
    ];
    let name = lower(name);
    STARTS.iter().any(|start| name.starts_with(start))
}

/// Takes a connection and runs nothing on it: it closes, inspects or stores it.
pub(crate) fn leaves_connection_unused(name: &str) -> bool {
    const WORDS: [&str; 14] = [
        "close",
        "release",
        "free",
        "escape",
        "quote",
        "is",
        "has",
        "assert",
        "expect",
        "wrap",
        "unwrap",
        "provide",
        "dispose",
        "disconnect",
    ];
    const OF_DRIVERS: [&str; 5] = ["new ", "mysqli_", "pg_", "sqlite_", "mysql_"];
    const NAMES: [&str; 32] = [
        "closing",
        "list",
        "dict",
        "iter",
        "next",
        "str",
        "repr",
        "bool",
        "type",
        "typeof",
        "id",
        "super",
        "partial",
        "bind",
        "on",
        "once",
        "done",
        "all",
        "race",
        "listen",
        "closequietly",
        "instanceof",
        "equals",
        "errorf",
        "autocommit",
        "putconn",
        "put_conn",
        "of",
        "tqdm",
        "dictfetchall",
        "withvalue",
        "withcontext",
    ];
    // Matches a whole word of the name: `isClosed`, but not `issueRefund`.
    let begins = |word: &&str| {
        let first = name.get(..word.len());
        let rest = name.get(word.len()..).and_then(|rest| rest.chars().next());
        first.is_some_and(|first| first.eq_ignore_ascii_case(word))
            && rest.is_none_or(|next| !next.is_lowercase())
    };
    let lower = lower(name);
    let sets = ["set", "get", "with", "use", "require"].iter();
    let keeps = sets.filter_map(|verb| lower.strip_prefix(verb));
    WORDS.iter().any(begins)
        || OF_DRIVERS.iter().any(|start| lower.starts_with(start))
        || NAMES.contains(&lower.as_str())
        || keeps
            .into_iter()
            .any(|what| is_connection(what.trim_start_matches('_')))
        || builds_text(&lower)
        || collections::adds(&lower)
        || opens(&lower)
        || lower.ends_with("exception")
        || lower.ends_with("error")
}

/// Whether drivers define a method of this name; on a connection it is the driver's.
pub(crate) fn is_driver_method(name: &str) -> bool {
    may_run_sql(name) || executes(name) || opens(name) || commits(name)
}

/// Executes tasks or requests, not statements.
pub(crate) fn is_executor(name: &str) -> bool {
    let name = lower(name);
    [
        "executor",
        "httpclient",
        "resttemplate",
        "threadpool",
        "redistemplate",
        "pipe",
        "pipeline",
    ]
    .iter()
    .any(|end| name.ends_with(end))
}

/// Whether a class belongs to a language or a common library, and maps no table.
pub(crate) fn is_standard_class(name: &str) -> bool {
    matches!(
        name,
        "Object"
            | "Array"
            | "Map"
            | "Set"
            | "Promise"
            | "Buffer"
            | "Date"
            | "Math"
            | "JSON"
            | "Reflect"
            | "Symbol"
            | "Number"
            | "String"
            | "URL"
            | "Response"
            | "Request"
            | "Cookie"
            | "Carbon"
            | "Session"
            | "Cache"
            | "Log"
            | "Storage"
            | "File"
            | "Http"
            | "Mail"
            | "Event"
            | "Queue"
            | "Route"
            | "View"
            | "Error"
            | "Schema"
    )
}

/// A monitoring counter: `stats.increment("seats")`.
pub(crate) fn is_metric(name: &str) -> bool {
    let name = lower(name);
    [
        "statsd",
        "stats",
        "metric",
        "metrics",
        "counter",
        "counters",
        "meter",
        "gauge",
        "histogram",
        "limiter",
    ]
    .iter()
    .any(|end| name.ends_with(end))
}

/// Executes a prepared statement on any receiver.
pub(crate) fn always_executes_prepared(name: &str, language: Language) -> bool {
    let name = lower(name);
    matches!(
        name.as_str(),
        "executequery"
            | "executeupdate"
            | "executelargeupdate"
            | "executestatement"
            | "mysqli_stmt_execute"
            | "pg_execute"
            | "mysqli_execute"
    ) || language == Language::Go
        && matches!(
            name.as_str(),
            "exec" | "execcontext" | "querycontext" | "queryrow" | "queryrowcontext"
        )
}

/// Calls a stored routine by name.
pub(crate) fn calls_routine(name: &str) -> bool {
    lower(name) == "callproc"
}

/// Registers a web handler: `app.post('/transfer', …)`.
pub(crate) fn is_route(name: &str) -> bool {
    matches!(
        lower(name).as_str(),
        "get" | "post" | "put" | "delete" | "patch" | "all" | "use" | "route" | "on" | "handlefunc"
    )
}
