'use strict'
// Every type: its object id, and values as text, as the driver's default parser gives them, and in binary.

const all = Buffer.from([...Array(256).keys()])

const integer = (size) => (value) => {
  const buffer = Buffer.alloc(size)
  buffer.writeIntBE(value, 0, size)
  return buffer
}

const int8 = (value) => {
  const buffer = Buffer.alloc(8)
  buffer.writeBigInt64BE(BigInt(value))
  return buffer
}

const float4 = (value) => {
  const buffer = Buffer.alloc(4)
  buffer.writeFloatBE(value)
  return buffer
}

const float8 = (value) => {
  const buffer = Buffer.alloc(8)
  buffer.writeDoubleBE(value)
  return buffer
}

/** Groups of four decimal digits with the weight of the first, sign and scale. */
function numeric(text) {
  const negative = text.startsWith('-')
  const [whole, fraction = ''] = text.replace('-', '').split('.')
  const digits =
    whole.padStart(Math.ceil(whole.length / 4) * 4, '0') + fraction.padEnd(Math.ceil(fraction.length / 4) * 4, '0')
  const groups = digits.match(/.{4}/g).map(Number)
  let weight = Math.ceil(whole.length / 4) - 1
  while (groups.length > 0 && groups[0] === 0) {
    groups.shift()
    weight -= 1
  }
  while (groups.length > 0 && groups.at(-1) === 0) groups.pop()
  if (groups.length === 0) weight = 0
  const words = [groups.length, weight, negative ? 0x4000 : 0, fraction.length, ...groups]
  return Buffer.concat(words.map((word) => integer(2)(word)))
}

/** Microseconds since 2000. */
const timestamp = (text) => {
  const [, seconds, micros = ''] = text.match(/^([^.]*)(?:\.(\d+))?$/)
  const whole = BigInt(Date.parse(`${seconds.replace(' ', 'T')}Z`) - Date.UTC(2000, 0, 1))
  return int8(whole * 1000n + BigInt(micros.padEnd(6, '0')))
}

/** Days since 2000. */
const date = (text) => integer(4)((Date.parse(`${text}T00:00:00Z`) - Date.UTC(2000, 0, 1)) / 86400000)

/** One dimension from 1; `null` for NULL. */
const array = (oid, element) => (elements) => {
  const head = elements.length === 0 ? [0, 0, oid] : [1, elements.includes(null) ? 1 : 0, oid, elements.length, 1]
  const parts = head.map((word) => integer(4)(word))
  for (const value of elements) {
    if (value === null) {
      parts.push(integer(4)(-1))
    } else {
      const bytes = element(value)
      parts.push(integer(4)(bytes.length), bytes)
    }
  }
  return Buffer.concat(parts)
}

const bool = (value) => Buffer.from([value ? 1 : 0])
const text = (value) => Buffer.from(value, 'utf8')
const uuid = (value) => Buffer.from(value.replaceAll('-', ''), 'hex')

const oids = {
  bool: 16,
  bytea: 17,
  int8: 20,
  int2: 21,
  int4: 23,
  text: 25,
  float4: 700,
  float8: 701,
  'bool[]': 1000,
  'int4[]': 1007,
  'text[]': 1009,
  'int8[]': 1016,
  'char(6)': 1042,
  'varchar(12)': 1043,
  date: 1082,
  timestamp: 1114,
  timestamptz: 1184,
  'timestamptz[]': 1185,
  'numeric[]': 1231,
  numeric: 1700,
  'numeric(12,2)': 1700,
  uuid: 2950,
}

const value = (type, printed, parsed, binary) => ({ type, printed, parsed, binary })
const same = (type, encode, texts) => texts.map((printed) => value(type, printed, printed, encode(printed)))

const values = [
  value('bool', 't', true, bool(true)),
  value('bool', 'f', false, bool(false)),
  ...[0, -32768, 32767].map((number) => value('int2', String(number), number, integer(2)(number))),
  ...[-2147483648, 2147483647].map((number) => value('int4', String(number), number, integer(4)(number))),
  // The driver leaves int8 and numeric as text: they do not fit a number.
  ...same('int8', int8, ['-9223372036854775808', '9223372036854775807', '0']),
  ...same('numeric', numeric, [
    '0',
    '0.00',
    '1',
    '-1.5',
    '9999',
    '10000',
    '0.0001',
    '0.00001',
    '-0.00001234',
    '100000000.0000',
    '12345678901234567890.123456789012345678',
    '-99999999999999999999999999999999999999',
  ]),
  ...same('numeric(12,2)', numeric, ['-1234567890.50']),
  value('float4', '1.5', 1.5, float4(1.5)),
  value('float4', '-0', -0, float4(-0)),
  value('float4', 'NaN', NaN, float4(NaN)),
  value('float4', '-Infinity', -Infinity, float4(-Infinity)),
  value('float8', '0.1', 0.1, float8(0.1)),
  value('float8', '-0', -0, float8(-0)),
  value('float8', '1e+300', 1e300, float8(1e300)),
  value('float8', '5e-324', 5e-324, float8(5e-324)),
  value('float8', 'NaN', NaN, float8(NaN)),
  value('float8', 'Infinity', Infinity, float8(Infinity)),
  ...same('text', text, ['', 'plain', 'it\'s "quoted" \\ and %', 'Grüße, 世界 🌍', 'line\r\nand\ttab']),
  ...same('varchar(12)', text, ['twelve chars', 'ä']),
  ...same('char(6)', text, ['abc   ', '      ']),
  ...[Buffer.alloc(0), Buffer.from([0]), all].map((bytes) => value('bytea', `\\x${bytes.toString('hex')}`, bytes, bytes)),
  ...same('uuid', uuid, ['00000000-0000-0000-0000-000000000000', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11']),
  ...['2024-02-29 12:34:56.789', '1999-12-31 23:59:59', '0001-01-01 00:00:00'].map((printed) =>
    value('timestamp', printed, new Date(`${printed.replace(' ', 'T')}Z`), timestamp(printed)),
  ),
  ...['2024-02-29 12:34:56.789', '1970-01-01 00:00:00'].map((printed) =>
    value('timestamptz', `${printed}+00`, new Date(`${printed.replace(' ', 'T')}Z`), timestamp(printed)),
  ),
  ...['2024-02-29', '0001-01-01', '9999-12-31'].map((printed) =>
    value('date', printed, new Date(`${printed}T00:00:00Z`), date(printed)),
  ),
  value('bool[]', '{t,NULL,f}', [true, null, false], array(16, bool)([true, null, false])),
  value('int4[]', '{}', [], array(23, integer(4))([])),
  value('int4[]', '{1,NULL,-2147483648}', [1, null, -2147483648], array(23, integer(4))([1, null, -2147483648])),
  value(
    'int8[]',
    '{9223372036854775807,NULL,0}',
    ['9223372036854775807', null, '0'],
    array(20, int8)(['9223372036854775807', null, '0']),
  ),
  value('numeric[]', '{0.1,NULL,-12345.6789}', [0.1, null, -12345.6789], array(1700, numeric)(['0.1', null, '-12345.6789'])),
  value(
    'text[]',
    '{"",NULL,"NULL","a,b","{x}","\\"q\\" \\\\","ü 🌍",plain}',
    ['', null, 'NULL', 'a,b', '{x}', '"q" \\', 'ü 🌍', 'plain'],
    array(25, text)(['', null, 'NULL', 'a,b', '{x}', '"q" \\', 'ü 🌍', 'plain']),
  ),
  value(
    'timestamptz[]',
    '{"2024-02-29 12:34:56+00",NULL}',
    [new Date('2024-02-29T12:34:56Z'), null],
    array(1184, timestamp)(['2024-02-29 12:34:56', null]),
  ),
  ...Object.keys(oids).map((type) => value(type, null, null, null)),
]

module.exports = { oids, values, int4: integer(4), numeric }
