//! Known functions without side effects: those that come with PostgreSQL, its usual extensions, and MySQL.
//!
//! A function that is neither declared nor among these may do anything, so a transaction that calls one is unknown.
//! From PostgreSQL's manual, chapter 9, and MySQL's, chapter 14; without functions that write, that advance sequences,
//! or that run a text as SQL.

/// Whether the function of this name, in lower case, has no side effects.
pub fn is_builtin(name: &str) -> bool {
    // PostGIS, and casts by the names of types.
    name.starts_with("st_")
        || FUNCTIONS
            .iter()
            .any(|line| line.split(' ').any(|known| known == name))
}

/// The names of these functions, with some keywords that stand before a bracket.
pub fn builtins() -> impl Iterator<Item = &'static str> {
    FUNCTIONS.iter().flat_map(|line| line.split(' '))
}

/// Each line is of one section.
const FUNCTIONS: &[&str] = &[
    // 9.2, 9.3: comparison and mathematics.
    "num_nonnulls num_nulls abs cbrt ceil ceiling degrees div erf erfc exp factorial floor gcd lcm ln log log10 min_scale \
     mod pi power radians round scale sign sqrt trim_scale trunc width_bucket random random_normal setseed acos acosd asin \
     asind atan atand atan2 atan2d cos cosd cot cotd sin sind tan tand sinh cosh tanh asinh acosh atanh gamma lgamma",
    // 9.4: strings.
    "bit_length char_length character_length length lower upper normalize octet_length overlay position substring substr \
     trim btrim ltrim rtrim ascii chr concat concat_ws format initcap left right lpad rpad md5 parse_ident quote_ident \
     quote_literal quote_nullable regexp_count regexp_instr regexp_like regexp_match regexp_matches regexp_replace \
     regexp_split_to_array regexp_split_to_table regexp_substr repeat replace reverse split_part starts_with \
     string_to_array string_to_table strpos to_ascii to_hex to_bin to_oct translate unistr casefold unicode_assigned",
    // 9.5, 9.6: bytes and bits.
    "bit_count get_bit get_byte set_bit set_byte sha224 sha256 sha384 sha512 convert convert_from convert_to encode decode \
     crc32 crc32c",
    // 9.8: formatting.
    "to_char to_date to_number to_timestamp",
    // 9.9: time.
    "age clock_timestamp current_date current_time current_timestamp date_add date_bin date_part date_subtract date_trunc \
     extract isfinite justify_days justify_hours justify_interval localtime localtimestamp make_date make_interval make_time \
     make_timestamp make_timestamptz now statement_timestamp timeofday transaction_timestamp timezone overlaps",
    // 9.10, 9.11: enumerations and geometry.
    "enum_first enum_last enum_range area center diagonal diameter height isclosed isopen npoints pclose popen radius slope \
     width box circle line lseg path point polygon bound_box",
    // 9.12: addresses.
    "abbrev broadcast family host hostmask inet_merge inet_same_family masklen netmask network set_masklen trunc \
     macaddr8_set7bit",
    // 9.13: text search.
    "array_to_tsvector get_current_ts_config numnode plainto_tsquery phraseto_tsquery websearch_to_tsquery querytree \
     setweight strip to_tsquery to_tsvector json_to_tsvector jsonb_to_tsvector ts_delete ts_filter ts_headline ts_rank \
     ts_rank_cd ts_rewrite tsquery_phrase tsvector_to_array ts_debug ts_lexize ts_parse",
    // 9.14: UUIDs.
    "gen_random_uuid uuidv4 uuidv7 uuid_extract_timestamp uuid_extract_version uuid_generate_v1 uuid_generate_v1mc \
     uuid_generate_v3 uuid_generate_v4 uuid_generate_v5 uuid_nil uuid_ns_dns uuid_ns_url uuid_ns_oid uuid_ns_x500",
    // 9.15: XML.
    "xmlcomment xmlconcat xmlelement xmlforest xmlparse xmlpi xmlroot xmlserialize xmlagg xmltext xpath xpath_exists \
     xml_is_well_formed",
    // 9.16: JSON.
    "to_json to_jsonb array_to_json json_array row_to_json json_build_array jsonb_build_array json_build_object \
     jsonb_build_object json_object jsonb_object json_scalar json_serialize json json_array_elements jsonb_array_elements \
     json_array_elements_text jsonb_array_elements_text json_array_length jsonb_array_length json_each jsonb_each \
     json_each_text jsonb_each_text json_extract_path jsonb_extract_path json_extract_path_text jsonb_extract_path_text \
     json_object_keys jsonb_object_keys json_populate_record jsonb_populate_record json_populate_recordset \
     jsonb_populate_recordset json_to_record jsonb_to_record json_to_recordset jsonb_to_recordset jsonb_set jsonb_set_lax \
     jsonb_insert json_strip_nulls jsonb_strip_nulls jsonb_path_exists jsonb_path_match jsonb_path_query \
     jsonb_path_query_array jsonb_path_query_first jsonb_path_exists_tz jsonb_path_match_tz jsonb_path_query_tz \
     jsonb_path_query_array_tz jsonb_path_query_first_tz jsonb_pretty json_typeof jsonb_typeof json_exists json_query \
     json_value json_table jsonb_concat jsonb_contains jsonb_exists jsonb_exists_any jsonb_exists_all",
    // 9.18: conditions.
    "coalesce nullif greatest least",
    // 9.19: arrays.
    "array_append array_cat array_dims array_fill array_length array_lower array_ndims array_position array_positions \
     array_prepend array_remove array_replace array_reverse array_sample array_shuffle array_sort array_to_string \
     array_upper cardinality trim_array unnest icount sort sort_asc sort_desc uniq idx subarray intset",
    // 9.20: ranges.
    "isempty lower_inc upper_inc lower_inf upper_inf range_merge multirange int4range int8range numrange tsrange tstzrange \
     daterange int4multirange int8multirange nummultirange tsmultirange tstzmultirange datemultirange",
    // 9.21: aggregates.
    "any_value array_agg avg bit_and bit_or bit_xor bool_and bool_or count every json_agg jsonb_agg json_agg_strict \
     json_arrayagg json_objectagg json_object_agg jsonb_object_agg json_object_agg_strict json_object_agg_unique max min \
     range_agg range_intersect_agg string_agg sum corr covar_pop covar_samp regr_avgx regr_avgy regr_count regr_intercept \
     regr_r2 regr_slope regr_sxx regr_sxy regr_syy stddev stddev_pop stddev_samp variance var_pop var_samp mode \
     percentile_cont percentile_disc grouping jsonb_agg_strict jsonb_object_agg_strict jsonb_object_agg_unique",
    // 9.22: windows.
    "row_number rank dense_rank percent_rank cume_dist ntile lag lead first_value last_value nth_value",
    // 9.24: rows.
    "row exists any some all",
    // 9.25: sets.
    "generate_series generate_subscripts",
    // 9.26: the session.
    "current_database current_catalog current_query current_role current_schema current_schemas current_user \
     inet_client_addr inet_client_port inet_server_addr inet_server_port pg_backend_pid pg_blocking_pids \
     pg_conf_load_time pg_current_logfile pg_is_other_temp_schema pg_jit_available pg_listening_channels pg_my_temp_schema \
     pg_notification_queue_usage pg_postmaster_start_time pg_safe_snapshot_blocking_pids pg_trigger_depth session_user \
     system_user user version has_any_column_privilege has_column_privilege has_database_privilege has_function_privilege \
     has_schema_privilege has_sequence_privilege has_table_privilege pg_has_role row_security_active",
    // 9.27: the catalogue.
    "format_type pg_char_to_encoding pg_encoding_to_char pg_get_catalog_foreign_keys pg_get_constraintdef pg_get_expr \
     pg_get_functiondef pg_get_function_arguments pg_get_function_identity_arguments pg_get_function_result pg_get_indexdef \
     pg_get_keywords pg_get_partkeydef pg_get_ruledef pg_get_serial_sequence pg_get_statisticsobjdef pg_get_triggerdef \
     pg_get_userbyid pg_get_viewdef pg_index_column_has_property pg_options_to_table pg_typeof to_regclass to_regcollation \
     to_regnamespace to_regoper to_regoperator to_regproc to_regprocedure to_regrole to_regtype pg_table_is_visible \
     pg_type_is_visible pg_function_is_visible col_description obj_description shobj_description pg_describe_object \
     pg_identify_object pg_basetype",
    // 9.28: transactions and snapshots.
    "age mxid_age pg_current_xact_id pg_current_xact_id_if_assigned pg_xact_status pg_current_snapshot pg_snapshot_xip \
     pg_snapshot_xmax pg_snapshot_xmin pg_visible_in_snapshot txid_current txid_current_if_assigned txid_current_snapshot \
     txid_snapshot_xip txid_snapshot_xmax txid_snapshot_xmin txid_visible_in_snapshot txid_status \
     pg_last_committed_xact pg_xact_commit_timestamp pg_current_wal_lsn pg_wal_lsn_diff pg_is_in_recovery \
     pg_last_wal_replay_lsn pg_last_wal_receive_lsn pg_last_xact_replay_timestamp",
    // Settings, sizes, waiting, locks, and notifications.
    "current_setting pg_column_size pg_column_compression pg_database_size pg_indexes_size pg_relation_size pg_size_bytes \
     pg_size_pretty pg_table_size pg_tablespace_size pg_total_relation_size pg_relation_filenode pg_relation_filepath \
     pg_partition_tree pg_partition_ancestors pg_partition_root pg_sleep pg_sleep_for pg_sleep_until pg_advisory_lock \
     pg_advisory_lock_shared pg_advisory_unlock pg_advisory_unlock_all pg_advisory_unlock_shared pg_advisory_xact_lock \
     pg_advisory_xact_lock_shared pg_try_advisory_lock pg_try_advisory_lock_shared pg_try_advisory_xact_lock \
     pg_try_advisory_xact_lock_shared pg_notify pg_cancel_backend pg_terminate_backend",
    // Names of functions behind operators and casts.
    "int2 int4 int8 int float4 float8 numeric text varchar bpchar char bytea bool date time timetz timestamp timestamptz \
     interval uuid name oid regclass inet cidr macaddr jsonb money bit varbit hashtext hashtextextended textcat numeric_add \
     int4pl timestamptz_pl_interval array_larger array_smaller cast treat collate",
    // pgcrypto.
    "armor crypt dearmor decrypt decrypt_iv digest encrypt encrypt_iv gen_random_bytes gen_salt hmac pgp_pub_decrypt \
     pgp_pub_decrypt_bytea pgp_pub_encrypt pgp_pub_encrypt_bytea pgp_sym_decrypt pgp_sym_decrypt_bytea pgp_sym_encrypt \
     pgp_sym_encrypt_bytea",
    // pg_trgm, fuzzystrmatch, unaccent.
    "similarity show_trgm word_similarity strict_word_similarity similarity_op show_limit soundex difference levenshtein \
     levenshtein_less_equal metaphone dmetaphone dmetaphone_alt daitch_mokotoff unaccent",
    // hstore, ltree, earthdistance, cube, intarray, tablefunc's that only compute.
    "hstore akeys avals skeys svals hstore_to_array hstore_to_matrix hstore_to_json hstore_to_jsonb slice exist defined \
     delete each populate_record subltree subpath nlevel index lca ltree2text text2ltree earth ll_to_earth latitude \
     longitude earth_distance earth_box gc_to_sec sec_to_gc cube cube_dim cube_ll_coord cube_ur_coord cube_distance \
     normal_rand",
    // pgvector, TimescaleDB's and Supabase's that only read.
    "l2_distance inner_product cosine_distance l1_distance vector_dims vector_norm l2_normalize binary_quantize time_bucket \
     time_bucket_gapfill locf interpolate first last histogram approximate_row_count postgis_version",
    // MySQL, 14.4 to 14.6: comparison, flow, numbers.
    "interval isnull strcmp if ifnull bin conv crc32 hex oct pow rand truncate log2 format",
    // 14.7: time.
    "addate adddate addtime convert_tz curdate curtime date date_format date_sub datediff day dayname dayofmonth \
     dayofweek dayofyear from_days from_unixtime get_format hour last_day localtime makedate maketime microsecond minute \
     month monthname period_add period_diff quarter sec_to_time second str_to_date subdate subtime sysdate time \
     time_format time_to_sec timediff timestampadd timestampdiff to_days to_seconds unix_timestamp utc_date utc_time \
     utc_timestamp week weekday weekofyear year yearweek",
    // 14.8: strings.
    "elt export_set field find_in_set from_base64 insert instr lcase load_file locate make_set mid ord quote soundex space \
     substring_index to_base64 ucase unhex weight_string regexp_instr match against",
    // 14.13: digests and compression.
    "aes_decrypt aes_encrypt compress uncompress uncompressed_length password random_bytes sha sha1 sha2 statement_digest \
     validate_password_strength",
    // 14.15: information about the server.
    "charset coercibility collation connection_id database found_rows last_insert_id row_count schema benchmark",
    // 14.17: JSON.
    "json_array_append json_array_insert json_contains json_contains_path json_depth json_extract json_insert json_keys \
     json_length json_merge json_merge_patch json_merge_preserve json_overlaps json_pretty json_quote json_remove \
     json_replace json_schema_valid json_search json_set json_storage_size json_type json_unquote json_valid",
    // 14.19: aggregates.
    "group_concat std json_objectagg json_arrayagg",
    // 14.23, 14.24: others.
    "any_value bin_to_uuid uuid_to_bin is_uuid uuid uuid_short default values inet_aton inet_ntoa inet6_aton inet6_ntoa \
     is_ipv4 is_ipv6 name_const sleep get_lock release_lock release_all_locks is_free_lock is_used_lock row_count",
    // sqlc's functions for parameters.
    "sqlc.arg sqlc.narg sqlc.slice sqlc.embed arg narg slice embed",
    // Keywords before a bracket that call nothing.
    "in values on using over partition by where and or not when then else case select from as is between like ilike \
     similar set returning filter within group order distinct lateral join having limit offset union except intersect \
     with only rollup cube sets conflict key into exists array nothing do for recursive end range rows groups \
     collate materialized similar escape while elsif elseif return raise until system bernoulli",
    // Types with brackets of their own, in casts.
    "decimal dec character nchar national binary varbinary double precision real float enum signed unsigned datetime \
     varying bit vector halfvec sparsevec geometry geography",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_writes_or_runs_text_is_not_among_them() {
        for name in [
            "nextval",
            "setval",
            "set_config",
            "query_to_xml",
            "table_to_xml",
            "dblink",
            "dblink_exec",
            "lo_unlink",
            "lo_import",
            "pg_read_file",
            "crosstab",
            "connectby",
            "transfer",
            "create_hypertable",
            "cursor_to_xml",
            "ts_stat",
            "currval",
            "lastval",
            "",
        ] {
            assert!(!is_builtin(name), "{name}");
        }
    }

    #[test]
    fn what_comes_to_a_value_is() {
        for name in [
            "to_char",
            "jsonb_set",
            "st_distance",
            "date_format",
            "similarity",
            "crypt",
            "unnest",
            "row_number",
        ] {
            assert!(is_builtin(name), "{name}");
        }
    }
}
