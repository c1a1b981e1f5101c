//! The numbers by which PostgreSQL's protocol names types (`pg_type.dat`).

use anabranch_types::{DataType, EffectError, ObjectKind};

/// The OID of a literal or parameter whose type is still to be inferred.
pub const UNKNOWN: u32 = 705;

/// The OID of a type.
pub fn oid_of(data_type: &DataType) -> u32 {
    match data_type {
        DataType::Bool => 16,
        DataType::Bytea => 17,
        DataType::Json => 114,
        DataType::Jsonb => 3802,
        DataType::Int8 => 20,
        DataType::Int2 => 21,
        DataType::Int4 => 23,
        DataType::Text => 25,
        DataType::Real => 700,
        DataType::Double => 701,
        DataType::Char(_) => 1042,
        DataType::Varchar(_) => 1043,
        DataType::Date => 1082,
        DataType::Timestamp => 1114,
        DataType::TimestampTz => 1184,
        DataType::Numeric(_) => 1700,
        DataType::Uuid => 2950,
        DataType::Array(element) => array_oid_of(element),
        DataType::SingleByte => 18,
        DataType::Name => 19,
        DataType::Int2Vector => 22,
        DataType::Oid => 26,
        DataType::OidVector => 30,
        DataType::OidAlias(kind) => match kind {
            ObjectKind::Procedure => 24,
            ObjectKind::Signature => 2202,
            ObjectKind::Relation => 2205,
            ObjectKind::Type => 2206,
            ObjectKind::Schema => 4089,
            ObjectKind::Role => 4096,
        },
        DataType::Record(_) => 2249,
        DataType::Void => 2278,
        DataType::Enum(of) => of.oid,
        // A type that has no number yet is sent as text by `encode_text`.
        _ => 25,
    }
}

/// The OID of the arrays of a type. Arrays of arrays are arrays of the same type in PostgreSQL.
pub fn array_oid_of(element: &DataType) -> u32 {
    match element {
        DataType::Bool => 1000,
        DataType::Json => 199,
        DataType::Bytea => 1001,
        DataType::Int2 => 1005,
        DataType::Int4 => 1007,
        DataType::Text => 1009,
        DataType::Char(_) => 1014,
        DataType::Varchar(_) => 1015,
        DataType::Int8 => 1016,
        DataType::Real => 1021,
        DataType::Double => 1022,
        DataType::Timestamp => 1115,
        DataType::Date => 1182,
        DataType::TimestampTz => 1185,
        DataType::Numeric(_) => 1231,
        DataType::Uuid => 2951,
        DataType::Jsonb => 3807,
        DataType::Array(inner) => array_oid_of(inner),
        DataType::Enum(of) => of.array_oid(),
        DataType::SingleByte => 1002,
        DataType::Name => 1003,
        DataType::Oid => 1028,
        DataType::OidAlias(kind) => match kind {
            ObjectKind::Procedure => 1008,
            ObjectKind::Signature => 2207,
            ObjectKind::Relation => 2210,
            ObjectKind::Type => 2211,
            ObjectKind::Schema => 4090,
            ObjectKind::Role => 4097,
        },
        _ => 1009,
    }
}

/// The length of a type's values in bytes, as `RowDescription` has it; -1 if it varies.
pub fn type_length_of(data_type: &DataType) -> i16 {
    match data_type {
        DataType::Bool | DataType::SingleByte => 1,
        DataType::Int2 => 2,
        DataType::Int4
        | DataType::Real
        | DataType::Date
        | DataType::Oid
        | DataType::OidAlias(_)
        | DataType::Void => 4,
        DataType::Name => 64,
        DataType::Int8 | DataType::Double | DataType::Timestamp | DataType::TimestampTz => 8,
        DataType::Uuid => 16,
        // PostgreSQL stores the number of the label.
        DataType::Enum(_) => 4,
        _ => -1,
    }
}

/// The bounds of a type in the form of `pg_attribute.atttypmod`; -1 if it has none.
pub fn type_modifier_of(data_type: &DataType) -> i32 {
    /// PostgreSQL counts the four bytes of its length header.
    const HEADER: i32 = 4;
    match data_type {
        DataType::Varchar(Some(length)) | DataType::Char(length) => {
            i32::try_from(*length).map_or(-1, |length| length.saturating_add(HEADER))
        }
        DataType::Numeric(Some(bounds)) => {
            (i32::from(bounds.precision) << 16 | i32::from(bounds.scale)) + HEADER
        }
        DataType::Array(element) => type_modifier_of(element),
        _ => -1,
    }
}

/// The type that a client names by its OID for a parameter; `None` for 0 and `unknown`, which leave it to be
/// inferred.
///
/// # Errors
/// `0A000` for a type of PostgreSQL that is not supported, by its name; `42704` for any other number.
pub fn data_type_of(oid: u32) -> Result<Option<DataType>, EffectError> {
    if oid == 0 || oid == UNKNOWN {
        return Ok(None);
    }
    // JDBC names it for the OUT parameters of a call.
    if oid == 2278 {
        return Ok(Some(DataType::Void));
    }
    if let Some(data_type) = scalar_of(oid) {
        return Ok(Some(data_type));
    }
    if let Some(element) = SCALARS
        .iter()
        .filter_map(|oid| scalar_of(*oid))
        .find(|element| array_oid_of(element) == oid)
    {
        return Ok(Some(DataType::Array(Box::new(element))));
    }
    match UNSUPPORTED.binary_search_by_key(&oid, |(known, _)| *known) {
        Ok(at) => {
            let message = format!("type {} is not supported", UNSUPPORTED[at].1);
            Err(EffectError::new("0A000", message))
        }
        Err(_) => {
            let message = format!("type with OID {oid} does not exist");
            Err(EffectError::new("42704", message))
        }
    }
}

/// The OIDs that `scalar_of` knows.
const SCALARS: [u32; 20] = [
    16, 17, 18, 19, 20, 21, 23, 25, 26, 114, 700, 701, 1042, 1043, 1082, 1114, 1184, 1700, 2950,
    3802,
];

fn scalar_of(oid: u32) -> Option<DataType> {
    Some(match oid {
        16 => DataType::Bool,
        17 => DataType::Bytea,
        18 => DataType::SingleByte,
        19 => DataType::Name,
        20 => DataType::Int8,
        21 => DataType::Int2,
        23 => DataType::Int4,
        25 => DataType::Text,
        26 => DataType::Oid,
        114 => DataType::Json,
        700 => DataType::Real,
        701 => DataType::Double,
        1042 => DataType::BPCHAR,
        1043 => DataType::Varchar(None),
        1082 => DataType::Date,
        1114 => DataType::Timestamp,
        1184 => DataType::TimestampTz,
        1700 => DataType::Numeric(None),
        2950 => DataType::Uuid,
        3802 => DataType::Jsonb,
        _ => return None,
    })
}

/// Types of PostgreSQL that have no counterpart here, as `format_type` writes them, by OID.
const UNSUPPORTED: &[(u32, &str)] = &[
    (24, "regproc"),
    (27, "tid"),
    (28, "xid"),
    (29, "cid"),
    (142, "xml"),
    (143, "xml[]"),
    (271, "xid8[]"),
    (600, "point"),
    (601, "lseg"),
    (602, "path"),
    (603, "box"),
    (604, "polygon"),
    (628, "line"),
    (629, "line[]"),
    (650, "cidr"),
    (651, "cidr[]"),
    (718, "circle"),
    (719, "circle[]"),
    (774, "macaddr8"),
    (775, "macaddr8[]"),
    (790, "money"),
    (791, "money[]"),
    (829, "macaddr"),
    (869, "inet"),
    (1008, "regproc[]"),
    (1010, "tid[]"),
    (1011, "xid[]"),
    (1012, "cid[]"),
    (1017, "point[]"),
    (1018, "lseg[]"),
    (1019, "path[]"),
    (1020, "box[]"),
    (1027, "polygon[]"),
    (1040, "macaddr[]"),
    (1041, "inet[]"),
    (1083, "time without time zone"),
    (1183, "time without time zone[]"),
    (1186, "interval"),
    (1187, "interval[]"),
    (1263, "cstring[]"),
    (1266, "time with time zone"),
    (1270, "time with time zone[]"),
    (1560, "bit"),
    (1561, "bit[]"),
    (1562, "bit varying"),
    (1563, "bit varying[]"),
    (1790, "refcursor"),
    (2201, "refcursor[]"),
    (2202, "regprocedure"),
    (2203, "regoper"),
    (2204, "regoperator"),
    (2205, "regclass"),
    (2206, "regtype"),
    (2207, "regprocedure[]"),
    (2208, "regoper[]"),
    (2209, "regoperator[]"),
    (2210, "regclass[]"),
    (2211, "regtype[]"),
    (2249, "record"),
    (2287, "record[]"),
    (2949, "txid_snapshot[]"),
    (2970, "txid_snapshot"),
    (3615, "tsquery"),
    (3645, "tsquery[]"),
    (3734, "regconfig"),
    (3735, "regconfig[]"),
    (3769, "regdictionary"),
    (3770, "regdictionary[]"),
    (3904, "int4range"),
    (3905, "int4range[]"),
    (3906, "numrange"),
    (3907, "numrange[]"),
    (3908, "tsrange"),
    (3909, "tsrange[]"),
    (3910, "tstzrange"),
    (3911, "tstzrange[]"),
    (3912, "daterange"),
    (3913, "daterange[]"),
    (3926, "int8range"),
    (3927, "int8range[]"),
    (4072, "jsonpath"),
    (4073, "jsonpath[]"),
    (4089, "regnamespace"),
    (4090, "regnamespace[]"),
    (4096, "regrole"),
    (4097, "regrole[]"),
    (4191, "regcollation"),
    (4192, "regcollation[]"),
    (4451, "int4multirange"),
    (4532, "nummultirange"),
    (4533, "tsmultirange"),
    (4534, "tstzmultirange"),
    (4535, "datemultirange"),
    (4536, "int8multirange"),
    (5069, "xid8"),
    (6150, "int4multirange[]"),
    (6151, "nummultirange[]"),
    (6152, "tsmultirange[]"),
    (6153, "tstzmultirange[]"),
    (6155, "datemultirange[]"),
    (6157, "int8multirange[]"),
];
