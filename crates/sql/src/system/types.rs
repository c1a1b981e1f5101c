//! The types of PostgreSQL 15 that statements can name, and their functions: rows of its `pg_type` and `pg_proc`.

use std::sync::LazyLock;

use anabranch_types::{DataType, ObjectKind};

/// A row of `pg_type`.
#[derive(Debug)]
pub(crate) struct BaseType {
    pub(crate) oid: u32,
    pub(crate) name: &'static str,
    pub(crate) length: i16,
    pub(crate) by_value: bool,
    /// `b` for a base type, `p` for a pseudo-type.
    pub(crate) kind: &'static str,
    pub(crate) category: &'static str,
    pub(crate) preferred: bool,
    /// The type of its elements; 0 if it has none.
    pub(crate) element: u32,
    /// The type of its arrays; 0 if there is none.
    pub(crate) array: u32,
    pub(crate) alignment: &'static str,
    pub(crate) storage: &'static str,
    pub(crate) collation: u32,
    /// The functions that read and write its text and its binary form, and its subscripts.
    pub(crate) functions: [u32; 5],
}

/// All types, by OID.
pub(crate) fn base_types() -> &'static [BaseType] {
    static ALL: LazyLock<Vec<BaseType>> = LazyLock::new(|| TYPES.lines().map(base_type).collect());
    &ALL
}

/// The length of a type's values, whether they are passed by value, their alignment, storage and collation.
pub(crate) fn storage_of(data_type: &DataType) -> (i16, bool, &'static str, &'static str, u32) {
    if let DataType::Enum(_) = data_type {
        return ENUM_STORAGE;
    }
    match base_type_of(type_oid(data_type)) {
        Some(of) => (
            of.length,
            of.by_value,
            of.alignment,
            of.storage,
            of.collation,
        ),
        None if data_type.element().is_some() => (-1, false, "i", "x", 0),
        None => (-1, false, "i", "p", 0),
    }
}

/// As [`storage_of`], of enumerations: PostgreSQL stores the number of a label.
pub(crate) const ENUM_STORAGE: (i16, bool, &str, &str, u32) = (4, true, "i", "p", 0);
/// The functions of enumerations, as [`BaseType::functions`].
pub(crate) const ENUM_FUNCTIONS: [u32; 5] = [3504, 3505, 3532, 3533, 0];

/// The type with this OID.
pub(crate) fn base_type_of(oid: u32) -> Option<&'static BaseType> {
    let all = base_types();
    let at = all.binary_search_by_key(&oid, |of| of.oid).ok()?;
    Some(&all[at])
}

/// The functions of types: OID and name, by OID.
pub(crate) fn type_functions() -> &'static [(u32, &'static str)] {
    static ALL: LazyLock<Vec<(u32, &'static str)>> = LazyLock::new(|| {
        let pairs = FUNCTIONS.split(',').map(|pair| {
            let (oid, name) = pair
                .trim()
                .split_once(' ')
                .expect("a function has an OID and a name");
            (oid.parse().expect("an OID is a number"), name)
        });
        pairs.collect()
    });
    &ALL
}

fn base_type(line: &'static str) -> BaseType {
    let words: Vec<&'static str> = line.split(' ').collect();
    let number = |at: usize| -> u32 { words[at].parse().expect("an OID is a number") };
    BaseType {
        oid: number(0),
        name: words[1],
        length: words[2].parse().expect("a length is a number"),
        by_value: words[3] == "t",
        kind: words[4],
        category: words[5],
        preferred: words[6] == "t",
        element: number(7),
        array: number(8),
        alignment: words[9],
        storage: words[10],
        collation: number(11),
        functions: [number(12), number(13), number(14), number(15), number(16)],
    }
}

/// The OID of a type.
pub(crate) fn type_oid(data_type: &DataType) -> u32 {
    match data_type {
        DataType::Bool => 16,
        DataType::Bytea => 17,
        DataType::SingleByte => 18,
        DataType::Name => 19,
        DataType::Int8 => 20,
        DataType::Int2 => 21,
        DataType::Int2Vector => 22,
        DataType::Int4 => 23,
        DataType::OidAlias(ObjectKind::Procedure) => 24,
        DataType::Text => 25,
        DataType::Oid => 26,
        DataType::OidVector => 30,
        DataType::Json => 114,
        DataType::Real => 700,
        DataType::Double => 701,
        DataType::Char(_) => 1042,
        DataType::Varchar(_) => 1043,
        DataType::Date => 1082,
        DataType::Timestamp => 1114,
        DataType::TimestampTz => 1184,
        DataType::Numeric(_) => 1700,
        DataType::OidAlias(ObjectKind::Signature) => 2202,
        DataType::OidAlias(ObjectKind::Relation) => 2205,
        DataType::OidAlias(ObjectKind::Type) => 2206,
        DataType::Uuid => 2950,
        DataType::Jsonb => 3802,
        DataType::OidAlias(ObjectKind::Schema) => 4089,
        DataType::OidAlias(ObjectKind::Role) => 4096,
        DataType::Enum(of) => of.oid,
        DataType::Array(element) => match &**element {
            DataType::Enum(of) => of.array_oid(),
            element => base_type_of(type_oid(element)).map_or(0, |of| of.array),
        },
        _ => 0,
    }
}

/// The bounds of a type in the form of `pg_attribute.atttypmod`; -1 if it has none.
pub(crate) fn type_modifier(data_type: &DataType) -> i32 {
    /// PostgreSQL counts the four bytes of its length header.
    const HEADER: i32 = 4;
    match data_type {
        DataType::Varchar(Some(length)) | DataType::Char(length) => {
            i32::try_from(*length).map_or(-1, |length| length.saturating_add(HEADER))
        }
        DataType::Numeric(Some(bounds)) => {
            (i32::from(bounds.precision) << 16 | i32::from(bounds.scale)) + HEADER
        }
        DataType::Array(element) => type_modifier(element),
        _ => -1,
    }
}

/// A type with its bounds, as `format_type` writes it: the inverse of [`type_oid`] and [`type_modifier`].
pub(crate) fn type_text(oid: u32, modifier: Option<i32>) -> String {
    let Some(of) = base_type_of(oid) else {
        return if oid == 0 {
            "-".to_owned()
        } else {
            "???".to_owned()
        };
    };
    if of.category == "A" && of.name.starts_with('_') {
        return format!("{}[]", type_text(of.element, modifier));
    }
    let bounded = modifier
        .filter(|modifier| *modifier >= 4)
        .map(|modifier| modifier - 4);
    match (of.name, bounded) {
        ("bool", _) => "boolean".to_owned(),
        ("char", _) => "\"char\"".to_owned(),
        ("int2", _) => "smallint".to_owned(),
        ("int4", _) => "integer".to_owned(),
        ("int8", _) => "bigint".to_owned(),
        ("float4", _) => "real".to_owned(),
        ("float8", _) => "double precision".to_owned(),
        ("timestamp", _) => "timestamp without time zone".to_owned(),
        ("timestamptz", _) => "timestamp with time zone".to_owned(),
        ("bpchar", Some(length)) => format!("character({length})"),
        // Without a bound, `character` would be `character(1)`.
        ("bpchar", None) if modifier.is_some() => "bpchar".to_owned(),
        ("bpchar", None) => "character".to_owned(),
        ("varchar", Some(length)) => format!("character varying({length})"),
        ("varchar", None) => "character varying".to_owned(),
        ("numeric", Some(bounds)) => format!("numeric({},{})", bounds >> 16, bounds & 0xffff),
        (name, _) => name.to_owned(),
    }
}

/// OID, name, length, by value, kind, category, preferred, element, array, alignment, storage, collation, and the
/// functions for input, output, binary input, binary output and subscripts.
const TYPES: &str = "\
16 bool 1 t b B t 0 1000 c p 0 1242 1243 2436 2437 0
17 bytea -1 f b U f 0 1001 i x 0 1244 31 2412 2413 0
18 char 1 t b Z f 0 1002 c p 0 1245 33 2434 2435 0
19 name 64 f b S f 18 1003 c p 950 34 35 2422 2423 6180
20 int8 8 t b N f 0 1016 d p 0 460 461 2408 2409 0
21 int2 2 t b N f 0 1005 s p 0 38 39 2404 2405 0
22 int2vector -1 f b A f 21 1006 i p 0 40 41 2410 2411 6179
23 int4 4 t b N f 0 1007 i p 0 42 43 2406 2407 0
24 regproc 4 t b N f 0 1008 i p 0 44 45 2444 2445 0
25 text -1 f b S t 0 1009 i x 100 46 47 2414 2415 0
26 oid 4 t b N t 0 1028 i p 0 1798 1799 2418 2419 0
30 oidvector -1 f b A f 26 1013 i p 0 54 55 2420 2421 6179
114 json -1 f b U f 0 199 i x 0 321 322 323 324 0
199 _json -1 f b A f 114 0 i x 0 750 751 2400 2401 6179
700 float4 4 t b N f 0 1021 i p 0 200 201 2424 2425 0
701 float8 8 t b N t 0 1022 d p 0 214 215 2426 2427 0
705 unknown -2 f p X f 0 0 c p 0 109 110 2416 2417 0
1000 _bool -1 f b A f 16 0 i x 0 750 751 2400 2401 6179
1001 _bytea -1 f b A f 17 0 i x 0 750 751 2400 2401 6179
1002 _char -1 f b A f 18 0 i x 0 750 751 2400 2401 6179
1003 _name -1 f b A f 19 0 i x 950 750 751 2400 2401 6179
1005 _int2 -1 f b A f 21 0 i x 0 750 751 2400 2401 6179
1006 _int2vector -1 f b A f 22 0 i x 0 750 751 2400 2401 6179
1007 _int4 -1 f b A f 23 0 i x 0 750 751 2400 2401 6179
1008 _regproc -1 f b A f 24 0 i x 0 750 751 2400 2401 6179
1009 _text -1 f b A f 25 0 i x 100 750 751 2400 2401 6179
1013 _oidvector -1 f b A f 30 0 i x 0 750 751 2400 2401 6179
1014 _bpchar -1 f b A f 1042 0 i x 100 750 751 2400 2401 6179
1015 _varchar -1 f b A f 1043 0 i x 100 750 751 2400 2401 6179
1016 _int8 -1 f b A f 20 0 d x 0 750 751 2400 2401 6179
1021 _float4 -1 f b A f 700 0 i x 0 750 751 2400 2401 6179
1022 _float8 -1 f b A f 701 0 d x 0 750 751 2400 2401 6179
1028 _oid -1 f b A f 26 0 i x 0 750 751 2400 2401 6179
1042 bpchar -1 f b S f 0 1014 i x 100 1044 1045 2430 2431 0
1043 varchar -1 f b S f 0 1015 i x 100 1046 1047 2432 2433 0
1082 date 4 t b D f 0 1182 i p 0 1084 1085 2468 2469 0
1114 timestamp 8 t b D f 0 1115 d p 0 1312 1313 2474 2475 0
1115 _timestamp -1 f b A f 1114 0 d x 0 750 751 2400 2401 6179
1182 _date -1 f b A f 1082 0 i x 0 750 751 2400 2401 6179
1184 timestamptz 8 t b D t 0 1185 d p 0 1150 1151 2476 2477 0
1185 _timestamptz -1 f b A f 1184 0 d x 0 750 751 2400 2401 6179
1231 _numeric -1 f b A f 1700 0 i x 0 750 751 2400 2401 6179
1700 numeric -1 f b N f 0 1231 i m 0 1701 1702 2460 2461 0
2202 regprocedure 4 t b N f 0 2207 i p 0 2212 2213 2446 2447 0
2205 regclass 4 t b N f 0 2210 i p 0 2218 2219 2452 2453 0
2206 regtype 4 t b N f 0 2211 i p 0 2220 2221 2454 2455 0
2249 record -1 f p P f 0 2287 d x 0 2290 2291 2402 2403 0
2278 void 4 t p P f 0 0 i p 0 2298 2299 3120 3121 0
2279 trigger 4 t p P f 0 0 i p 0 2300 2301 0 0 0
2950 uuid 16 f b U f 0 2951 c p 0 2952 2953 2961 2962 0
2951 _uuid -1 f b A f 2950 0 i x 0 750 751 2400 2401 6179
3802 jsonb -1 f b U f 0 3807 i x 0 3806 3804 3805 3803 6098
3807 _jsonb -1 f b A f 3802 0 i x 0 750 751 2400 2401 6179
4089 regnamespace 4 t b N f 0 4090 i p 0 4084 4085 4087 4088 0
4096 regrole 4 t b N f 0 4097 i p 0 4098 4092 4094 4095 0";

/// OID and name of the functions above.
const FUNCTIONS: &str = "
    31 byteaout, 33 charout, 34 namein, 35 nameout, 38 int2in, 39 int2out, 40 int2vectorin, 41 int2vectorout,
    42 int4in, 43 int4out, 44 regprocin, 45 regprocout, 46 textin, 47 textout, 54 oidvectorin, 55 oidvectorout,
    109 unknownin, 110 unknownout, 321 json_in, 322 json_out, 323 json_recv, 324 json_send, 200 float4in, 201 float4out, 214 float8in, 215 float8out, 460 int8in,
    461 int8out, 750 array_in, 751 array_out, 1044 bpcharin, 1045 bpcharout, 1046 varcharin, 1047 varcharout,
    1084 date_in, 1085 date_out, 1150 timestamptz_in, 1151 timestamptz_out, 1242 boolin, 1243 boolout,
    1244 byteain, 1245 charin, 1312 timestamp_in, 1313 timestamp_out, 1701 numeric_in, 1702 numeric_out,
    1798 oidin, 1799 oidout, 2212 regprocedurein, 2213 regprocedureout, 2218 regclassin, 2219 regclassout,
    2220 regtypein, 2221 regtypeout, 2290 record_in, 2291 record_out, 2298 void_in, 2299 void_out,
    2300 trigger_in, 2301 trigger_out,
    2400 array_recv, 2401 array_send, 2402 record_recv, 2403 record_send, 2404 int2recv, 2405 int2send,
    2406 int4recv, 2407 int4send, 2408 int8recv, 2409 int8send, 2410 int2vectorrecv, 2411 int2vectorsend,
    2412 bytearecv, 2413 byteasend, 2414 textrecv, 2415 textsend, 2416 unknownrecv, 2417 unknownsend,
    2418 oidrecv, 2419 oidsend, 2420 oidvectorrecv, 2421 oidvectorsend, 2422 namerecv, 2423 namesend,
    2424 float4recv, 2425 float4send, 2426 float8recv, 2427 float8send, 2430 bpcharrecv, 2431 bpcharsend,
    2432 varcharrecv, 2433 varcharsend, 2434 charrecv, 2435 charsend, 2436 boolrecv, 2437 boolsend,
    2444 regprocrecv, 2445 regprocsend, 2446 regprocedurerecv, 2447 regproceduresend, 2452 regclassrecv,
    2453 regclasssend, 2454 regtyperecv, 2455 regtypesend, 2460 numeric_recv, 2461 numeric_send, 2468 date_recv,
    2469 date_send, 2474 timestamp_recv, 2475 timestamp_send, 2476 timestamptz_recv, 2477 timestamptz_send,
    2952 uuid_in, 2953 uuid_out, 2961 uuid_recv, 2962 uuid_send, 3120 void_recv, 3121 void_send,
    3504 enum_in, 3505 enum_out, 3532 enum_recv, 3533 enum_send, 3803 jsonb_send, 3804 jsonb_out, 3805 jsonb_recv, 3806 jsonb_in,
    4084 regnamespacein, 4085 regnamespaceout, 4087 regnamespacerecv, 4088 regnamespacesend, 4092 regroleout,
    4094 regrolerecv, 4095 regrolesend, 4098 regrolein,
    6098 jsonb_subscript_handler, 6179 array_subscript_handler,
    6180 raw_array_subscript_handler
";

#[cfg(test)]
mod tests {
    use anabranch_types::NumericBounds;

    use super::*;

    #[test]
    fn a_type_is_written_as_it_was_declared() {
        let bounds = NumericBounds {
            precision: 10,
            scale: 2,
        };
        for data_type in [
            DataType::Bool,
            DataType::Int2,
            DataType::Varchar(None),
            DataType::Varchar(Some(20)),
            DataType::Char(3),
            DataType::Numeric(None),
            DataType::Numeric(Some(bounds)),
            DataType::TimestampTz,
            DataType::Array(Box::new(DataType::Varchar(Some(7)))),
            DataType::Array(Box::new(DataType::Real)),
            DataType::SingleByte,
            DataType::OidAlias(ObjectKind::Relation),
            DataType::Int2Vector,
            DataType::Json,
            DataType::Array(Box::new(DataType::Jsonb)),
        ] {
            let modifier = Some(type_modifier(&data_type));
            assert_eq!(
                type_text(type_oid(&data_type), modifier),
                data_type.to_string()
            );
        }
        assert_eq!(type_text(1042, None), "character");
        assert_eq!(type_text(1042, Some(-1)), "bpchar");
        assert_eq!(type_text(4_000_000, Some(-1)), "???");
    }
}
