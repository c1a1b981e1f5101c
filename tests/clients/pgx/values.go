package main

// Every type: its object id, values as text and as Go has them.

import (
	"math"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

type value struct {
	// The type's name and object id.
	name string
	oid  uint32
	// The text that PostgreSQL prints.
	printed string
	// What the driver gives for it when it may choose the type.
	parsed any
}

// number is a numeric in the driver's own type.
func number(text string) pgtype.Numeric {
	var numeric pgtype.Numeric
	if err := numeric.Scan(text); err != nil {
		panic(err)
	}
	return numeric
}

func at(text string) time.Time {
	when, err := time.Parse("2006-01-02 15:04:05.999999", text)
	if err != nil {
		panic(err)
	}
	return when.UTC()
}

func allBytes() []byte {
	bytes := make([]byte, 256)
	for index := range bytes {
		bytes[index] = byte(index)
	}
	return bytes
}

// hexOfAll is a bytea of all bytes as it is printed.
func hexOfAll() string {
	const digits = "0123456789abcdef"
	text := []byte(`\x`)
	for _, one := range allBytes() {
		text = append(text, digits[one>>4], digits[one&15])
	}
	return string(text)
}

var values = []value{
	{"bool", pgtype.BoolOID, "t", true},
	{"bool", pgtype.BoolOID, "f", false},
	{"int2", pgtype.Int2OID, "-32768", int16(-32768)},
	{"int2", pgtype.Int2OID, "32767", int16(32767)},
	{"int4", pgtype.Int4OID, "-2147483648", int32(-2147483648)},
	{"int4", pgtype.Int4OID, "2147483647", int32(2147483647)},
	{"int8", pgtype.Int8OID, "-9223372036854775808", int64(math.MinInt64)},
	{"int8", pgtype.Int8OID, "9223372036854775807", int64(math.MaxInt64)},
	{"numeric", pgtype.NumericOID, "0", number("0")},
	{"numeric", pgtype.NumericOID, "-1.5", number("-1.5")},
	{"numeric", pgtype.NumericOID, "0.00001", number("0.00001")},
	{"numeric", pgtype.NumericOID, "12345678901234567890.123456789012345678", number("12345678901234567890.123456789012345678")},
	{"numeric", pgtype.NumericOID, "-99999999999999999999999999999999999999", number("-99999999999999999999999999999999999999")},
	{"numeric(12,2)", pgtype.NumericOID, "-1234567890.53", number("-1234567890.53")},
	{"float4", pgtype.Float4OID, "1.5", float32(1.5)},
	{"float4", pgtype.Float4OID, "-Infinity", float32(math.Inf(-1))},
	{"float8", pgtype.Float8OID, "0.1", 0.1},
	{"float8", pgtype.Float8OID, "1e+300", 1e300},
	{"float8", pgtype.Float8OID, "5e-324", 5e-324},
	{"float8", pgtype.Float8OID, "Infinity", math.Inf(1)},
	{"text", pgtype.TextOID, "", ""},
	{"text", pgtype.TextOID, `it's "quoted" \ and %`, `it's "quoted" \ and %`},
	{"text", pgtype.TextOID, "Grüße, 世界 🌍", "Grüße, 世界 🌍"},
	{"text", pgtype.TextOID, "line\r\nand\ttab", "line\r\nand\ttab"},
	{"varchar(12)", pgtype.VarcharOID, "twelve chars", "twelve chars"},
	{"char(6)", pgtype.BPCharOID, "abc   ", "abc   "},
	{"bytea", pgtype.ByteaOID, `\x`, []byte{}},
	{"bytea", pgtype.ByteaOID, hexOfAll(), allBytes()},
	{"uuid", pgtype.UUIDOID, "00000000-0000-0000-0000-000000000000", [16]byte{}},
	{"uuid", pgtype.UUIDOID, "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
		[16]byte{0xa0, 0xee, 0xbc, 0x99, 0x9c, 0x0b, 0x4e, 0xf8, 0xbb, 0x6d, 0x6b, 0xb9, 0xbd, 0x38, 0x0a, 0x11}},
	{"timestamp", pgtype.TimestampOID, "2024-02-29 12:34:56.789012", at("2024-02-29 12:34:56.789012")},
	{"timestamp", pgtype.TimestampOID, "0001-01-01 00:00:00", at("0001-01-01 00:00:00")},
	{"timestamptz", pgtype.TimestamptzOID, "2024-02-29 12:34:56.789012+00", at("2024-02-29 12:34:56.789012")},
	{"timestamptz", pgtype.TimestamptzOID, "1970-01-01 00:00:00+00", at("1970-01-01 00:00:00")},
	{"date", pgtype.DateOID, "2024-02-29", at("2024-02-29 00:00:00")},
	{"date", pgtype.DateOID, "9999-12-31", at("9999-12-31 00:00:00")},
	{"bool[]", pgtype.BoolArrayOID, "{t,NULL,f}", []any{true, nil, false}},
	{"int4[]", pgtype.Int4ArrayOID, "{}", []any{}},
	{"int4[]", pgtype.Int4ArrayOID, "{1,NULL,-2147483648}", []any{int32(1), nil, int32(math.MinInt32)}},
	{"int8[]", pgtype.Int8ArrayOID, "{9223372036854775807,NULL}", []any{int64(math.MaxInt64), nil}},
	{"numeric[]", pgtype.NumericArrayOID, "{0.1,NULL,-12345.6789}", []any{number("0.1"), nil, number("-12345.6789")}},
	{"text[]", pgtype.TextArrayOID, `{"",NULL,"NULL","a,b","{x}","\"q\" \\","ü 🌍",plain}`,
		[]any{"", nil, "NULL", "a,b", "{x}", `"q" \`, "ü 🌍", "plain"}},
	{"timestamptz[]", pgtype.TimestamptzArrayOID, `{"2024-02-29 12:34:56+00",NULL}`, []any{at("2024-02-29 12:34:56"), nil}},
}
