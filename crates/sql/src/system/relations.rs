//! The relations of PostgreSQL 15's system catalogs: their names, OIDs and columns.
//!
//! The list is PostgreSQL's own `pg_class` and `pg_attribute`, with these differences: what has no type here is `text`
//! (`aclitem`, `pg_node_tree`, `pg_lsn`), `xid` is `oid`, and the domains of the information schema are their base
//! types, as PostgreSQL's protocol describes them too. The OIDs of views vary between PostgreSQL's clusters; these are
//! of one.

use std::sync::LazyLock;

use anabranch_types::{DataType, ObjectKind};

use super::objects::{INFORMATION_SCHEMA, PG_CATALOG};
use crate::ring_relation::RingRelation;
use crate::transaction_column::TransactionColumn;

/// A relation of the system catalogs.
#[derive(Debug)]
pub(crate) struct Definition {
    pub(crate) oid: u32,
    pub(crate) schema: &'static str,
    pub(crate) name: &'static str,
    pub(crate) is_view: bool,
    pub(crate) columns: Vec<Column>,
}

/// A column of such a relation.
#[derive(Debug)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) data_type: DataType,
    pub(crate) nullable: bool,
}

impl Definition {
    /// The place of a column.
    ///
    /// # Panics
    /// When there is none: the names are this crate's own.
    pub(crate) fn place(&self, column: &str) -> usize {
        let place = self.columns.iter().position(|c| c.name == column);
        place.unwrap_or_else(|| panic!("{}.{column} is no column", self.name))
    }
}

/// The OID of the schema of a relation of the system catalogs.
pub(crate) fn schema_of(of: &Definition) -> u32 {
    match of.schema {
        "information_schema" => INFORMATION_SCHEMA,
        _ => PG_CATALOG,
    }
}

/// All relations, in the order of the list.
pub(crate) fn definitions() -> &'static [Definition] {
    static ALL: LazyLock<Vec<Definition>> = LazyLock::new(|| parse(LIST));
    &ALL
}

/// The relations of the schema `anabranch`, which PostgreSQL has not. No other relation of the catalogs has a row for them.
pub(crate) fn ours() -> &'static [Definition] {
    static OURS: LazyLock<Vec<Definition>> = LazyLock::new(|| {
        let transactions = TransactionColumn::ALL.iter();
        let transactions = transactions.map(|(column, name)| (*name, column.data_type()));
        let mut all = vec![our("transactions", transactions.collect())];
        all.extend(RingRelation::ALL.map(|of| our(of.name(), of.columns())));
        all
    });
    &OURS
}

fn our(name: &'static str, columns: Vec<(&'static str, DataType)>) -> Definition {
    let column = |(name, data_type)| Column {
        name,
        data_type,
        nullable: true,
    };
    Definition {
        oid: 0,
        schema: "anabranch",
        name,
        is_view: true,
        columns: columns.into_iter().map(column).collect(),
    }
}

fn parse(list: &'static str) -> Vec<Definition> {
    let mut all: Vec<Definition> = Vec::new();
    for line in list.lines().filter(|line| !line.is_empty()) {
        let Some(columns) = line.strip_prefix("    ") else {
            all.push(head(line));
            continue;
        };
        let definition = all.last_mut().expect("a relation comes before its columns");
        for column in columns.split(',').map(str::trim).filter(|c| !c.is_empty()) {
            let (name, rest) = column.split_once(' ').expect("a column has a type");
            let written = rest.trim_end_matches('!');
            definition.columns.push(Column {
                name,
                data_type: data_type(written),
                nullable: written == rest,
            });
        }
    }
    all
}

fn data_type(written: &str) -> DataType {
    if let Some(element) = written.strip_suffix("[]") {
        return DataType::Array(Box::new(data_type(element)));
    }
    match written {
        "bool" => DataType::Bool,
        "bytea" => DataType::Bytea,
        "char" => DataType::SingleByte,
        "float4" => DataType::Real,
        "int2" => DataType::Int2,
        "int2vector" => DataType::Int2Vector,
        "int4" => DataType::Int4,
        "int8" => DataType::Int8,
        "name" => DataType::Name,
        "oid" => DataType::Oid,
        "oidvector" => DataType::OidVector,
        "regproc" => DataType::OidAlias(ObjectKind::Procedure),
        "regtype" => DataType::OidAlias(ObjectKind::Type),
        "text" => DataType::Text,
        "timestamptz" => DataType::TimestampTz,
        "varchar" => DataType::Varchar(None),
        "varchar(3)" => DataType::Varchar(Some(3)),
        other => panic!("{other} is no type of the list"),
    }
}

fn head(line: &'static str) -> Definition {
    let mut words = line.split([' ', '.']);
    let mut next = || {
        words
            .next()
            .expect("a relation has an OID, a schema, a name, a kind")
    };
    Definition {
        oid: next().parse().expect("an OID is a number"),
        schema: next(),
        name: next(),
        is_view: next() == "v",
        columns: Vec::new(),
    }
}

/// A relation: its OID, its name, `r` for a table or `v` for a view. Below it its columns: name, type, `!` for NOT NULL.
const LIST: &str = "
2601 pg_catalog.pg_am r
    oid oid!, amname name!, amhandler regproc!, amtype char!
2604 pg_catalog.pg_attrdef r
    oid oid!, adrelid oid!, adnum int2!, adbin text!
1249 pg_catalog.pg_attribute r
    attrelid oid!, attname name!, atttypid oid!, attstattarget int4!, attlen int2!, attnum int2!,
    attndims int4!, attcacheoff int4!, atttypmod int4!, attbyval bool!, attalign char!, attstorage char!,
    attcompression char!, attnotnull bool!, atthasdef bool!, atthasmissing bool!, attidentity char!,
    attgenerated char!, attisdropped bool!, attislocal bool!, attinhcount int4!, attcollation oid!,
    attacl text[], attoptions text[], attfdwoptions text[], attmissingval text
1261 pg_catalog.pg_auth_members r
    roleid oid!, member oid!, grantor oid!, admin_option bool!
1260 pg_catalog.pg_authid r
    oid oid!, rolname name!, rolsuper bool!, rolinherit bool!, rolcreaterole bool!, rolcreatedb bool!,
    rolcanlogin bool!, rolreplication bool!, rolbypassrls bool!, rolconnlimit int4!, rolpassword text,
    rolvaliduntil timestamptz
2605 pg_catalog.pg_cast r
    oid oid!, castsource oid!, casttarget oid!, castfunc oid!, castcontext char!, castmethod char!
1259 pg_catalog.pg_class r
    oid oid!, relname name!, relnamespace oid!, reltype oid!, reloftype oid!, relowner oid!, relam oid!,
    relfilenode oid!, reltablespace oid!, relpages int4!, reltuples float4!, relallvisible int4!,
    reltoastrelid oid!, relhasindex bool!, relisshared bool!, relpersistence char!, relkind char!,
    relnatts int2!, relchecks int2!, relhasrules bool!, relhastriggers bool!, relhassubclass bool!,
    relrowsecurity bool!, relforcerowsecurity bool!, relispopulated bool!, relreplident char!,
    relispartition bool!, relrewrite oid!, relfrozenxid oid!, relminmxid oid!, relacl text[], reloptions text[],
    relpartbound text
3456 pg_catalog.pg_collation r
    oid oid!, collname name!, collnamespace oid!, collowner oid!, collprovider char!, collisdeterministic bool!,
    collencoding int4!, collcollate text, collctype text, colliculocale text, collversion text
2606 pg_catalog.pg_constraint r
    oid oid!, conname name!, connamespace oid!, contype char!, condeferrable bool!, condeferred bool!,
    convalidated bool!, conrelid oid!, contypid oid!, conindid oid!, conparentid oid!, confrelid oid!,
    confupdtype char!, confdeltype char!, confmatchtype char!, conislocal bool!, coninhcount int4!,
    connoinherit bool!, conkey int2[], confkey int2[], conpfeqop oid[], conppeqop oid[], conffeqop oid[],
    confdelsetcols int2[], conexclop oid[], conbin text
2607 pg_catalog.pg_conversion r
    oid oid!, conname name!, connamespace oid!, conowner oid!, conforencoding int4!, contoencoding int4!,
    conproc regproc!, condefault bool!
12077 pg_catalog.pg_cursors v
    name text, statement text, is_holdable bool, is_binary bool, is_scrollable bool, creation_time timestamptz
1262 pg_catalog.pg_database r
    oid oid!, datname name!, datdba oid!, encoding int4!, datlocprovider char!, datistemplate bool!,
    datallowconn bool!, datconnlimit int4!, datfrozenxid oid!, datminmxid oid!, dattablespace oid!,
    datcollate text!, datctype text!, daticulocale text, datcollversion text, datacl text[]
2964 pg_catalog.pg_db_role_setting r
    setdatabase oid!, setrole oid!, setconfig text[]
826 pg_catalog.pg_default_acl r
    oid oid!, defaclrole oid!, defaclnamespace oid!, defaclobjtype char!, defaclacl text[]!
2608 pg_catalog.pg_depend r
    classid oid!, objid oid!, objsubid int4!, refclassid oid!, refobjid oid!, refobjsubid int4!, deptype char!
2609 pg_catalog.pg_description r
    objoid oid!, classoid oid!, objsubid int4!, description text!
3501 pg_catalog.pg_enum r
    oid oid!, enumtypid oid!, enumsortorder float4!, enumlabel name!
3466 pg_catalog.pg_event_trigger r
    oid oid!, evtname name!, evtevent name!, evtowner oid!, evtfoid oid!, evtenabled char!, evttags text[]
3079 pg_catalog.pg_extension r
    oid oid!, extname name!, extowner oid!, extnamespace oid!, extrelocatable bool!, extversion text!,
    extconfig oid[], extcondition text[]
2328 pg_catalog.pg_foreign_data_wrapper r
    oid oid!, fdwname name!, fdwowner oid!, fdwhandler oid!, fdwvalidator oid!, fdwacl text[], fdwoptions text[]
1417 pg_catalog.pg_foreign_server r
    oid oid!, srvname name!, srvowner oid!, srvfdw oid!, srvtype text, srvversion text, srvacl text[],
    srvoptions text[]
3118 pg_catalog.pg_foreign_table r
    ftrelid oid!, ftserver oid!, ftoptions text[]
12010 pg_catalog.pg_group v
    groname name, grosysid oid, grolist oid[]
2610 pg_catalog.pg_index r
    indexrelid oid!, indrelid oid!, indnatts int2!, indnkeyatts int2!, indisunique bool!,
    indnullsnotdistinct bool!, indisprimary bool!, indisexclusion bool!, indimmediate bool!,
    indisclustered bool!, indisvalid bool!, indcheckxmin bool!, indisready bool!, indislive bool!,
    indisreplident bool!, indkey int2vector!, indcollation oidvector!, indclass oidvector!,
    indoption int2vector!, indexprs text, indpred text
12043 pg_catalog.pg_indexes v
    schemaname name, tablename name, indexname name, tablespace name, indexdef text
2611 pg_catalog.pg_inherits r
    inhrelid oid!, inhparent oid!, inhseqno int4!, inhdetachpending bool!
2612 pg_catalog.pg_language r
    oid oid!, lanname name!, lanowner oid!, lanispl bool!, lanpltrusted bool!, lanplcallfoid oid!,
    laninline oid!, lanvalidator oid!, lanacl text[]
12038 pg_catalog.pg_matviews v
    schemaname name, matviewname name, matviewowner name, tablespace name, hasindexes bool, ispopulated bool,
    definition text
2615 pg_catalog.pg_namespace r
    oid oid!, nspname name!, nspowner oid!, nspacl text[]
2616 pg_catalog.pg_opclass r
    oid oid!, opcmethod oid!, opcname name!, opcnamespace oid!, opcowner oid!, opcfamily oid!, opcintype oid!,
    opcdefault bool!, opckeytype oid!
2617 pg_catalog.pg_operator r
    oid oid!, oprname name!, oprnamespace oid!, oprowner oid!, oprkind char!, oprcanmerge bool!,
    oprcanhash bool!, oprleft oid!, oprright oid!, oprresult oid!, oprcom oid!, oprnegate oid!,
    oprcode regproc!, oprrest regproc!, oprjoin regproc!
2753 pg_catalog.pg_opfamily r
    oid oid!, opfmethod oid!, opfname name!, opfnamespace oid!, opfowner oid!
3350 pg_catalog.pg_partitioned_table r
    partrelid oid!, partstrat char!, partnatts int2!, partdefid oid!, partattrs int2vector!,
    partclass oidvector!, partcollation oidvector!, partexprs text
12018 pg_catalog.pg_policies v
    schemaname name, tablename name, policyname name, permissive text, roles name[], cmd text, qual text,
    with_check text
3256 pg_catalog.pg_policy r
    oid oid!, polname name!, polrelid oid!, polcmd char!, polpermissive bool!, polroles oid[]!, polqual text,
    polwithcheck text
1255 pg_catalog.pg_proc r
    oid oid!, proname name!, pronamespace oid!, proowner oid!, prolang oid!, procost float4!, prorows float4!,
    provariadic oid!, prosupport regproc!, prokind char!, prosecdef bool!, proleakproof bool!,
    proisstrict bool!, proretset bool!, provolatile char!, proparallel char!, pronargs int2!,
    pronargdefaults int2!, prorettype oid!, proargtypes oidvector!, proallargtypes oid[], proargmodes char[],
    proargnames text[], proargdefaults text, protrftypes oid[], prosrc text!, probin text, prosqlbody text,
    proconfig text[], proacl text[]
6104 pg_catalog.pg_publication r
    oid oid!, pubname name!, pubowner oid!, puballtables bool!, pubinsert bool!, pubupdate bool!,
    pubdelete bool!, pubtruncate bool!, pubviaroot bool!
6237 pg_catalog.pg_publication_namespace r
    oid oid!, pnpubid oid!, pnnspid oid!
6106 pg_catalog.pg_publication_rel r
    oid oid!, prpubid oid!, prrelid oid!, prqual text, prattrs int2vector
3541 pg_catalog.pg_range r
    rngtypid oid!, rngsubtype oid!, rngmultitypid oid!, rngcollation oid!, rngsubopc oid!,
    rngcanonical regproc!, rngsubdiff regproc!
2618 pg_catalog.pg_rewrite r
    oid oid!, rulename name!, ev_class oid!, ev_type char!, ev_enabled char!, is_instead bool!, ev_qual text!,
    ev_action text!
12000 pg_catalog.pg_roles v
    rolname name, rolsuper bool, rolinherit bool, rolcreaterole bool, rolcreatedb bool, rolcanlogin bool,
    rolreplication bool, rolconnlimit int4, rolpassword text, rolvaliduntil timestamptz, rolbypassrls bool,
    rolconfig text[], oid oid
12023 pg_catalog.pg_rules v
    schemaname name, tablename name, rulename name, definition text
2224 pg_catalog.pg_sequence r
    seqrelid oid!, seqtypid oid!, seqstart int8!, seqincrement int8!, seqmax int8!, seqmin int8!,
    seqcache int8!, seqcycle bool!
12048 pg_catalog.pg_sequences v
    schemaname name, sequencename name, sequenceowner name, data_type regtype, start_value int8, min_value int8,
    max_value int8, increment_by int8, cycle bool, cache_size int8, last_value int8
12104 pg_catalog.pg_settings v
    name text, setting text, unit text, category text, short_desc text, extra_desc text, context text,
    vartype text, source text, min_val text, max_val text, enumvals text[], boot_val text, reset_val text,
    sourcefile text, sourceline int4, pending_restart bool
2396 pg_catalog.pg_shdescription r
    objoid oid!, classoid oid!, description text!
3381 pg_catalog.pg_statistic_ext r
    oid oid!, stxrelid oid!, stxname name!, stxnamespace oid!, stxowner oid!, stxstattarget int4!,
    stxkeys int2vector!, stxkind char[]!, stxexprs text
6100 pg_catalog.pg_subscription r
    oid oid!, subdbid oid!, subskiplsn text!, subname name!, subowner oid!, subenabled bool!, subbinary bool!,
    substream bool!, subtwophasestate char!, subdisableonerr bool!, subconninfo text!, subslotname name,
    subsynccommit text!, subpublications text[]!
12033 pg_catalog.pg_tables v
    schemaname name, tablename name, tableowner name, tablespace name, hasindexes bool, hasrules bool,
    hastriggers bool, rowsecurity bool
1213 pg_catalog.pg_tablespace r
    oid oid!, spcname name!, spcowner oid!, spcacl text[], spcoptions text[]
2620 pg_catalog.pg_trigger r
    oid oid!, tgrelid oid!, tgparentid oid!, tgname name!, tgfoid oid!, tgtype int2!, tgenabled char!,
    tgisinternal bool!, tgconstrrelid oid!, tgconstrindid oid!, tgconstraint oid!, tgdeferrable bool!,
    tginitdeferred bool!, tgnargs int2!, tgattr int2vector!, tgargs bytea!, tgqual text, tgoldtable name,
    tgnewtable name
1247 pg_catalog.pg_type r
    oid oid!, typname name!, typnamespace oid!, typowner oid!, typlen int2!, typbyval bool!, typtype char!,
    typcategory char!, typispreferred bool!, typisdefined bool!, typdelim char!, typrelid oid!,
    typsubscript regproc!, typelem oid!, typarray oid!, typinput regproc!, typoutput regproc!,
    typreceive regproc!, typsend regproc!, typmodin regproc!, typmodout regproc!, typanalyze regproc!,
    typalign char!, typstorage char!, typnotnull bool!, typbasetype oid!, typtypmod int4!, typndims int4!,
    typcollation oid!, typdefaultbin text, typdefault text, typacl text[]
12014 pg_catalog.pg_user v
    usename name, usesysid oid, usecreatedb bool, usesuper bool, userepl bool, usebypassrls bool, passwd text,
    valuntil timestamptz, useconfig text[]
12028 pg_catalog.pg_views v
    schemaname name, viewname name, viewowner name, definition text
13236 information_schema.applicable_roles v
    grantee name, role_name name, is_grantable varchar(3)
13260 information_schema.check_constraints v
    constraint_catalog name, constraint_schema name, constraint_name name, check_clause varchar
13285 information_schema.column_privileges v
    grantor name, grantee name, table_catalog name, table_schema name, table_name name, column_name name,
    privilege_type varchar, is_grantable varchar(3)
13295 information_schema.columns v
    table_catalog name, table_schema name, table_name name, column_name name, ordinal_position int4,
    column_default varchar, is_nullable varchar(3), data_type varchar, character_maximum_length int4,
    character_octet_length int4, numeric_precision int4, numeric_precision_radix int4, numeric_scale int4,
    datetime_precision int4, interval_type varchar, interval_precision int4, character_set_catalog name,
    character_set_schema name, character_set_name name, collation_catalog name, collation_schema name,
    collation_name name, domain_catalog name, domain_schema name, domain_name name, udt_catalog name,
    udt_schema name, udt_name name, scope_catalog name, scope_schema name, scope_name name,
    maximum_cardinality int4, dtd_identifier name, is_self_referencing varchar(3), is_identity varchar(3),
    identity_generation varchar, identity_start varchar, identity_increment varchar, identity_maximum varchar,
    identity_minimum varchar, identity_cycle varchar(3), is_generated varchar, generation_expression varchar,
    is_updatable varchar(3)
13300 information_schema.constraint_column_usage v
    table_catalog name, table_schema name, table_name name, column_name name, constraint_catalog name,
    constraint_schema name, constraint_name name
13305 information_schema.constraint_table_usage v
    table_catalog name, table_schema name, table_name name, constraint_catalog name, constraint_schema name,
    constraint_name name
13320 information_schema.domains v
    domain_catalog name, domain_schema name, domain_name name, data_type varchar, character_maximum_length int4,
    character_octet_length int4, character_set_catalog name, character_set_schema name, character_set_name name,
    collation_catalog name, collation_schema name, collation_name name, numeric_precision int4,
    numeric_precision_radix int4, numeric_scale int4, datetime_precision int4, interval_type varchar,
    interval_precision int4, domain_default varchar, udt_catalog name, udt_schema name, udt_name name,
    scope_catalog name, scope_schema name, scope_name name, maximum_cardinality int4, dtd_identifier name
13493 information_schema.element_types v
    object_catalog name, object_schema name, object_name name, object_type varchar,
    collection_type_identifier name, data_type varchar, character_maximum_length int4,
    character_octet_length int4, character_set_catalog name, character_set_schema name, character_set_name name,
    collation_catalog name, collation_schema name, collation_name name, numeric_precision int4,
    numeric_precision_radix int4, numeric_scale int4, datetime_precision int4, interval_type varchar,
    interval_precision int4, domain_default varchar, udt_catalog name, udt_schema name, udt_name name,
    scope_catalog name, scope_schema name, scope_name name, maximum_cardinality int4, dtd_identifier name
13325 information_schema.enabled_roles v
    role_name name
13329 information_schema.key_column_usage v
    constraint_catalog name, constraint_schema name, constraint_name name, table_catalog name,
    table_schema name, table_name name, column_name name, ordinal_position int4,
    position_in_unique_constraint int4
13334 information_schema.parameters v
    specific_catalog name, specific_schema name, specific_name name, ordinal_position int4,
    parameter_mode varchar, is_result varchar(3), as_locator varchar(3), parameter_name name, data_type varchar,
    character_maximum_length int4, character_octet_length int4, character_set_catalog name,
    character_set_schema name, character_set_name name, collation_catalog name, collation_schema name,
    collation_name name, numeric_precision int4, numeric_precision_radix int4, numeric_scale int4,
    datetime_precision int4, interval_type varchar, interval_precision int4, udt_catalog name, udt_schema name,
    udt_name name, scope_catalog name, scope_schema name, scope_name name, maximum_cardinality int4,
    dtd_identifier name, parameter_default varchar
13339 information_schema.referential_constraints v
    constraint_catalog name, constraint_schema name, constraint_name name, unique_constraint_catalog name,
    unique_constraint_schema name, unique_constraint_name name, match_option varchar, update_rule varchar,
    delete_rule varchar
13377 information_schema.routines v
    specific_catalog name, specific_schema name, specific_name name, routine_catalog name, routine_schema name,
    routine_name name, routine_type varchar, module_catalog name, module_schema name, module_name name,
    udt_catalog name, udt_schema name, udt_name name, data_type varchar, character_maximum_length int4,
    character_octet_length int4, character_set_catalog name, character_set_schema name, character_set_name name,
    collation_catalog name, collation_schema name, collation_name name, numeric_precision int4,
    numeric_precision_radix int4, numeric_scale int4, datetime_precision int4, interval_type varchar,
    interval_precision int4, type_udt_catalog name, type_udt_schema name, type_udt_name name,
    scope_catalog name, scope_schema name, scope_name name, maximum_cardinality int4, dtd_identifier name,
    routine_body varchar, routine_definition varchar, external_name varchar, external_language varchar,
    parameter_style varchar, is_deterministic varchar(3), sql_data_access varchar, is_null_call varchar(3),
    sql_path varchar, schema_level_routine varchar(3), max_dynamic_result_sets int4,
    is_user_defined_cast varchar(3), is_implicitly_invocable varchar(3), security_type varchar,
    to_sql_specific_catalog name, to_sql_specific_schema name, to_sql_specific_name name, as_locator varchar(3),
    created timestamptz, last_altered timestamptz, new_savepoint_level varchar(3), is_udt_dependent varchar(3),
    result_cast_from_data_type varchar, result_cast_as_locator varchar(3), result_cast_char_max_length int4,
    result_cast_char_octet_length int4, result_cast_char_set_catalog name, result_cast_char_set_schema name,
    result_cast_char_set_name name, result_cast_collation_catalog name, result_cast_collation_schema name,
    result_cast_collation_name name, result_cast_numeric_precision int4,
    result_cast_numeric_precision_radix int4, result_cast_numeric_scale int4,
    result_cast_datetime_precision int4, result_cast_interval_type varchar, result_cast_interval_precision int4,
    result_cast_type_udt_catalog name, result_cast_type_udt_schema name, result_cast_type_udt_name name,
    result_cast_scope_catalog name, result_cast_scope_schema name, result_cast_scope_name name,
    result_cast_maximum_cardinality int4, result_cast_dtd_identifier name
13382 information_schema.schemata v
    catalog_name name, schema_name name, schema_owner name, default_character_set_catalog name,
    default_character_set_schema name, default_character_set_name name, sql_path varchar
13386 information_schema.sequences v
    sequence_catalog name, sequence_schema name, sequence_name name, data_type varchar, numeric_precision int4,
    numeric_precision_radix int4, numeric_scale int4, start_value varchar, minimum_value varchar,
    maximum_value varchar, increment varchar, cycle_option varchar(3)
13411 information_schema.table_constraints v
    constraint_catalog name, constraint_schema name, constraint_name name, table_catalog name,
    table_schema name, table_name name, constraint_type varchar, is_deferrable varchar(3),
    initially_deferred varchar(3), enforced varchar(3), nulls_distinct varchar(3)
13416 information_schema.table_privileges v
    grantor name, grantee name, table_catalog name, table_schema name, table_name name, privilege_type varchar,
    is_grantable varchar(3), with_hierarchy varchar(3)
13425 information_schema.tables v
    table_catalog name, table_schema name, table_name name, table_type varchar,
    self_referencing_column_name name, reference_generation varchar, user_defined_type_catalog name,
    user_defined_type_schema name, user_defined_type_name name, is_insertable_into varchar(3),
    is_typed varchar(3), commit_action varchar
13440 information_schema.triggers v
    trigger_catalog name, trigger_schema name, trigger_name name, event_manipulation varchar,
    event_object_catalog name, event_object_schema name, event_object_table name, action_order int4,
    action_condition varchar, action_statement varchar, action_orientation varchar, action_timing varchar,
    action_reference_old_table name, action_reference_new_table name, action_reference_old_row name,
    action_reference_new_row name, created timestamptz
13468 information_schema.view_column_usage v
    view_catalog name, view_schema name, view_name name, table_catalog name, table_schema name, table_name name,
    column_name name
13478 information_schema.view_table_usage v
    view_catalog name, view_schema name, view_name name, table_catalog name, table_schema name, table_name name
13483 information_schema.views v
    table_catalog name, table_schema name, table_name name, view_definition varchar, check_option varchar,
    is_updatable varchar(3), is_insertable_into varchar(3), is_trigger_updatable varchar(3),
    is_trigger_deletable varchar(3), is_trigger_insertable_into varchar(3)
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_read_whole() {
        let class = definitions()
            .iter()
            .find(|of| of.name == "pg_class")
            .unwrap();
        assert_eq!(
            (class.oid, class.schema, class.is_view),
            (1259, "pg_catalog", false)
        );
        assert_eq!(class.columns.len(), 33);
        let kind = &class.columns[class.place("relkind")];
        assert_eq!(
            (&kind.data_type, kind.nullable),
            (&DataType::SingleByte, false)
        );
        let columns = definitions()
            .iter()
            .find(|of| of.name == "columns")
            .unwrap();
        assert!(columns.is_view && columns.schema == "information_schema");
        let nullable = &columns.columns[columns.place("is_nullable")];
        assert_eq!(nullable.data_type, DataType::Varchar(Some(3)));
    }
}
