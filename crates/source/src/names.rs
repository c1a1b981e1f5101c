//! What calls do, by their names: the conventions of the drivers and libraries that programs use.

use crate::{
    language::Language,
    syntax::{Expression, ExpressionKind},
};

fn lower(name: &str) -> String {
    name.trim_start_matches('$').to_ascii_lowercase()
}

/// Makes a statement of a text, and does not run it yet.
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

/// Binds values to a statement that is ready.
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

/// Runs a statement that is ready.
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

/// Tells a text to people, or throws it: it is not run.
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

/// Keeps a text, or makes another of it.
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

/// Runs a text for certain, whoever has the method.
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

/// Runs a text where it is called on something that has to do with a database.
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

/// Is given SQL, and nothing else, by whatever has to do with a database.
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

/// Whether a name is one that connections, statements, cursors and transactions have.
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

/// Whether a type is one of these.
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
    // Clients of other things.
    const OTHERS: [&str; 6] = ["redis", "http", "grpc", "amqp", "s3.", "smtp"];
    let others = lower(of_type);
    TYPES.iter().any(|t| of_type.contains(t)) && !OTHERS.iter().any(|t| others.contains(t))
}

/// What Python calls on what stands behind `with`, before and after.
pub(crate) const ENTERS: &str = "__enter__";
pub(crate) const LEAVES: &str = "__exit__";
/// A connection that stands behind `with`: a transaction is begun on it.
pub(crate) const BEGINS: &str = "with connection";
/// PHP's `$$name`, and `include` and its like.
pub(crate) const ANY_VARIABLE: &str = "$$";
pub(crate) const INCLUDES: &str = "include";

/// Go's `goto`.
pub(crate) const JUMPS: &str = "goto";

/// Whether a decorator makes a method one that is read, or written, as a field is.
pub(crate) fn is_property(decorator: &Expression) -> bool {
    let name = lower(decorator.last_name().unwrap_or_default());
    name.ends_with("property") || matches!(name.as_str(), "setter" | "getter")
}

/// Runs a text as source, or another file: PHP's, Python's and JavaScript's.
pub(crate) fn runs_source(name: &str) -> bool {
    matches!(name, "eval" | "exec" | INCLUDES | "new Function")
}

/// Gives variables values whose names stand nowhere.
pub(crate) fn sets_dynamic_variables(name: &str) -> bool {
    matches!(name, "extract" | "parse_str" | "eval" | ANY_VARIABLE)
}

/// Writes rows by the names of their columns, and is no method.
pub(crate) fn writes_rows(name: &str) -> bool {
    matches!(
        name,
        "pg_update" | "pg_insert" | "pg_delete" | "pg_copy_from" | "pg_put_line"
    )
}

/// Tells whoever has asked for it that something has happened.
pub(crate) fn publishes(name: &str) -> bool {
    matches!(
        lower(name).as_str(),
        "publishevent" | "fireevent" | "publish" | "fire"
    )
}

/// Whether an annotation has a method called for whatever is published.
pub(crate) fn listens(annotation: &Expression) -> bool {
    let name = lower(annotation.last_name().unwrap_or_default());
    name.ends_with("listener") || name.ends_with("subscribe") || name.ends_with("eventhandler")
}

/// Whether a class is one whose methods a library gives bodies: they run SQL that stands elsewhere, or nowhere.
pub(crate) fn is_mapper(class: &str) -> bool {
    let name = lower(class);
    ["mapper", "dao", "repository"]
        .iter()
        .any(|end| name.ends_with(end))
}

/// Opens a connection or a transaction of its own.
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

/// Begins a transaction, also on a connection that was open.
pub(crate) fn begins(name: &str) -> bool {
    match lower(name).as_str() {
        "getconnection" | "connect" | "new pdo" | "new mysqli" | "mysqli_connect"
        | "pg_connect" => false,
        "atomic" | BEGINS => true,
        name => opens(name),
    }
}

/// Whether who is handed a function has it run in a transaction, by what it is called on and its own name.
pub(crate) fn runs_in_a_transaction(on: Option<&Expression>, name: &str) -> bool {
    let is_one = |name: &str| {
        let name = lower(name);
        name.contains("transaction")
            || matches!(name.as_str(), "intx" | "withtx" | "runintx" | "tx")
    };
    is_one(name) || begins(name) || on.and_then(Expression::last_name).is_some_and(is_one)
}

/// Whether an annotation or a decorator has all that a function calls run in one transaction.
pub(crate) fn makes_a_transaction(annotation: &Expression) -> bool {
    let name = lower(annotation.last_name().unwrap_or_default());
    let name = name.trim_start_matches('@');
    matches!(name, "atomic" | "commit_on_success" | "unit_of_work")
        || name.ends_with("transactional")
        || name.ends_with("transaction")
}

/// Whether a name is that of many connections, each statement on one of which is a transaction unless one was begun.
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

/// Calls what it is given once for each element.
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

/// Calls what it is given once, at once.
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

/// PHP's functions that call what they are told.
pub(crate) fn calls_by_name(name: &str) -> bool {
    matches!(
        lower(name).as_str(),
        "call_user_func" | "call_user_func_array" | "array_map" | "array_walk"
    )
}

/// Writes objects whose SQL stands nowhere, or copies rows without any.
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

/// Whether it is a model's `objects`, or made from them: `Account.objects.filter(id=1)`.
fn is_manager(receiver: &Expression) -> bool {
    match &receiver.kind {
        ExpressionKind::Member(of, name) => name == "objects" || is_manager(of),
        ExpressionKind::Call { callee, .. } => is_manager(callee),
        _ => false,
    }
}

/// How sure it is that a name is that of something that has to do with a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Certainty {
    No,
    /// Other things are called so, too.
    Possible,
    Certain,
}

/// Whether a name is one of what leads to a database: connections, transactions, and what libraries that make the SQL
/// themselves call theirs.
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
    // A constant is none, nor what Go and others hand through all calls.
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

/// Begins as the names of what writes do: called on a database, it may do so.
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
    // These make something ready, or tell of something.
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

/// What objects of libraries are told that write themselves: `account.save()`.
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

/// The same, where nothing is known of the object: names that hardly anything else has.
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

/// Begins as the names of what only reads do, or of what makes something ready.
pub(crate) fn reads(name: &str) -> bool {
    const STARTS: [&str; 16] = [
        "get", "fetch", "read", "find", "select", "list", "count", "exists", "is", "has", "cursor",
        "scroll", "describe", "prepare", "set", "quote",
    ];
    let name = lower(name);
    STARTS.iter().any(|start| name.starts_with(start))
}

/// Is given a connection, and runs nothing on it: it closes it, tells of it, or keeps it.
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
    // A word of the name, and not only its beginning: `isClosed`, not `issueRefund`.
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
        || opens(&lower)
        || lower.ends_with("exception")
        || lower.ends_with("error")
}

/// Whether drivers have a method of that name: on a connection it is theirs, and not one of the program's.
pub(crate) fn is_driver_method(name: &str) -> bool {
    may_run_sql(name) || executes(name) || opens(name) || commits(name)
}

/// Executes tasks or requests, and no statements.
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

/// Whether a class is one of a language or of what all programs use, and lies over no table.
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

/// Counts something for those who watch a program: `stats.increment("seats")`.
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

/// Runs a statement that is ready, whoever has the method.
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

/// Runs a routine of the database that it is given the name of.
pub(crate) fn calls_routine(name: &str) -> bool {
    lower(name) == "callproc"
}

/// A way to reach a web handler: `app.post('/transfer', …)`.
pub(crate) fn is_route(name: &str) -> bool {
    matches!(
        lower(name).as_str(),
        "get" | "post" | "put" | "delete" | "patch" | "all" | "use" | "route" | "on" | "handlefunc"
    )
}
