'use strict'
// node-postgres against a server: node main.js HOST PORT [--transactions] [--schema]
//
// `--transactions` adds transactions of several statements, `--schema` changes of the schema. The driver has no COPY.

const { isUtf8 } = require('node:buffer')
const { Client, Pool, Query } = require('pg')
const Cursor = require('pg-cursor')
const { attempt, check, finish } = require('./checks.js')
const { oids, values, int4, numeric } = require('./values.js')

const [host, port, ...flags] = process.argv.slice(2)
const address = { host, port: Number(port), user: 'anabranch', database: 'anabranch' }

/** Values as they come from the wire: text, or a buffer. */
const raw = { getTypeParser: () => (got) => got }

/** Without parameters the driver would take the simple protocol. */
const extended = { queryMode: 'extended' }

const HEAVY =
  'SELECT count(*) FROM generate_series(1, 2000) AS a, generate_series(1, 2000) AS b, generate_series(1, 2000) AS c'

async function connected(options, use) {
  const client = new Client({ ...address, ...options })
  // A connection that the server ends is told by the statement that was running.
  client.on('error', (error) => console.log(`the connection ended: ${error.message}`))
  const parameters = {}
  client.connection.on('parameterStatus', (message) => (parameters[message.parameterName] = message.parameterValue))
  await client.connect()
  try {
    return await use(client, parameters)
  } finally {
    await client.end()
  }
}

/** The only value of the only row. Not by `rowMode: 'array'`, in which the driver gives binary values as strings. */
async function one(client, query, parameters, options = {}) {
  const { rows } = await client.query({ text: query, values: parameters, ...options })
  if (rows.length !== 1 || Object.keys(rows[0]).length !== 1) {
    throw new Error(`expected one value, got ${JSON.stringify(rows)}`)
  }
  return Object.values(rows[0])[0]
}

/** Whether the driver can give these bytes: it reads them as UTF-8, whatever the format. */
const isReadable = (binary) => binary === null || isUtf8(binary)

async function rows(client, query, parameters) {
  return (await client.query({ text: query, values: parameters, rowMode: 'array' })).rows
}

/** The error that a statement has to end with. */
async function refused(client, query, parameters) {
  try {
    await client.query(query, parameters)
  } catch (error) {
    return error
  }
  throw new Error('it did not fail')
}

async function connecting() {
  await connected({}, async (client, parameters) => {
    console.log(`server_version: ${parameters.server_version}`)
    check('connect: version', parameters.server_version.split(/[. ]/)[0], '15')
    for (const [name, expected] of Object.entries({
      client_encoding: 'UTF8',
      server_encoding: 'UTF8',
      DateStyle: 'ISO, MDY',
      IntervalStyle: 'postgres',
      integer_datetimes: 'on',
      standard_conforming_strings: 'on',
      TimeZone: 'UTC',
      session_authorization: 'anabranch',
    })) {
      check(`connect: parameter ${name}`, parameters[name], expected)
    }
    check('connect: a key to cancel with', client.processID > 0, true)
    await attempt('connect: an empty query', null, async () => (await client.query('')).command)
  })
  // This driver has no `prefer`: asked for TLS, it tells what the server answered.
  await attempt('connect: TLS is refused', 'Error: The server does not support SSL connections', () =>
    connected({ ssl: {} }, () => 'TLS'),
  )
  const options = { application_name: 'checks', statement_timeout: 60000, options: '-c TimeZone=Asia/Tokyo' }
  await connected(options, async (client, parameters) => {
    check('connect: application_name', parameters.application_name, 'checks')
    check('connect: options', parameters.TimeZone, 'Asia/Tokyo')
    await attempt('connect: statement_timeout', '1min', () => one(client, 'SHOW statement_timeout'))
  })
  await attempt('connect: another database', '3D000', () =>
    connected({ database: 'no_such_database' }, () => 'connected').catch((error) => error.code),
  )
}

async function types(client) {
  for (const { type, printed, parsed, binary } of values) {
    const shown = printed === null ? 'NULL' : JSON.stringify(printed).slice(1, -1).slice(0, 40)
    const label = `types: ${type} ${shown}`
    const literal = printed === null ? 'NULL' : `'${printed.replaceAll("'", "''")}'`
    const hex = (got) => (Buffer.isBuffer(got) ? got.toString('hex') : got)
    await attempt(`${label}, simple`, printed, () => one(client, `SELECT ${literal}::${type}`, undefined, { types: raw }))
    await attempt(`${label}, parsed`, parsed, () => one(client, `SELECT ${literal}::${type}`, [], extended))
    await attempt(`${label}, sent text`, printed, () => one(client, `SELECT $1::${type}`, [printed], { types: raw }))
    if (isReadable(binary)) {
      await attempt(`${label}, binary`, hex(binary), async () =>
        hex(await one(client, `SELECT ${literal}::${type}`, [], { ...extended, types: raw, binary: true })),
      )
      await attempt(`${label}, sent text, binary`, hex(binary), async () =>
        hex(await one(client, `SELECT $1::${type}`, [printed], { types: raw, binary: true })),
      )
      await attempt(`${label}, sent binary, binary`, hex(binary), async () =>
        hex(await one(client, `SELECT $1::${type}`, [binary], { types: raw, binary: true })),
      )
    }
    // The driver sends buffers in binary.
    await attempt(`${label}, sent binary`, printed, () => one(client, `SELECT $1::${type}`, [binary], { types: raw }))
    await attempt(`${label}, described`, [oids[type], 'binary'], async () => {
      const { fields } = await client.query({ text: `SELECT $1::${type} AS it`, values: [printed], types: raw, binary: true })
      return [fields[0].dataTypeID, fields[0].format]
    })
  }
  for (const [type, given, expected] of [
    ['int4', 7, 7],
    ['int8', 1n << 40n, '1099511627776'],
    ['bool', true, true],
    ['timestamptz', new Date('2024-07-01T12:00:00.123Z'), new Date('2024-07-01T12:00:00.123Z')],
    ['int4[]', [1, null, 3], [1, null, 3]],
    ['text[]', ['a', null, 'b "c", {d}', '\\'], ['a', null, 'b "c", {d}', '\\']],
    ['bytea', Buffer.from([0, 255]), Buffer.from([0, 255])],
    ['text', { an: 'object' }, '{"an":"object"}'],
  ]) {
    await attempt(`types: ${type} as the driver writes it`, expected, () => one(client, `SELECT $1::${type}`, [given]))
  }
  await attempt('types: a result of no type is text', [25, 'words'], async () => {
    const { fields, rows } = await client.query("SELECT 'words' AS it")
    return [fields[0].dataTypeID, rows[0].it]
  })
}

async function tables(client) {
  const columns = {
    a_bool: 'bool',
    an_int2: 'int2',
    an_int4: 'int4',
    an_int8: 'int8',
    a_numeric: 'numeric',
    a_money: 'numeric(12,2)',
    a_float4: 'float4',
    a_float8: 'float8',
    a_text: 'text',
    a_varchar: 'varchar(12)',
    a_char: 'char(6)',
    a_bytea: 'bytea',
    a_uuid: 'uuid',
    a_timestamp: 'timestamp',
    a_timestamptz: 'timestamptz',
    a_date: 'date',
  }
  const arrays = {
    some_bool: 'bool[]',
    some_int4: 'int4[]',
    some_int8: 'int8[]',
    some_numeric: 'numeric[]',
    some_text: 'text[]',
    some_timestamptz: 'timestamptz[]',
  }
  let id = 0
  for (const [table, columnsOf] of [['every_type', columns], ['every_array', arrays]]) {
    const names = Object.keys(columnsOf)
    // Each column's last value, and its first.
    const found = names.map((name) => values.filter(({ type, printed }) => type === columnsOf[name] && printed !== null))
    for (const [label, chosen] of [
      ['first values', found.map((list) => list[0])],
      ['last values', found.map((list) => list.at(-1))],
      ['NULLs', names.map(() => ({ printed: null, binary: null }))],
    ]) {
      for (const form of ['printed', 'binary']) {
        id += 1
        const places = names.map((_, place) => `$${place + 2}`)
        const insert = `INSERT INTO ${table} (id, ${names.join(', ')}) VALUES ($1, ${places.join(', ')})`
        await attempt(`${table}: ${label} written, ${form}`, ['INSERT', 1], async () => {
          const { command, rowCount } = await client.query(insert, [id, ...chosen.map((value) => value[form])])
          return [command, rowCount]
        })
        for (const [place, name] of names.entries()) {
          const query = `SELECT ${name} FROM ${table} WHERE id = $1`
          const { printed, binary } = chosen[place]
          await attempt(`${table}: ${name} of ${label} written ${form}, read text`, printed, () =>
            one(client, query, [id], { types: raw }),
          )
          if (!isReadable(binary)) continue
          await attempt(`${table}: ${name} of ${label} written ${form}, read binary`, binary?.toString('hex'), async () =>
            (await one(client, query, [id], { types: raw, binary: true }))?.toString('hex'),
          )
        }
      }
    }
  }
  await attempt('tables: UPDATE counts', ['UPDATE', 4], async () => {
    const { command, rowCount } = await client.query('UPDATE every_type SET an_int4 = $1 WHERE a_bool IS NOT NULL', [5])
    return [command, rowCount]
  })
  await attempt('tables: RETURNING', [{ id: 1, next: 6 }], async () =>
    (await client.query('UPDATE every_type SET an_int4 = 6 WHERE id = $1 RETURNING id, an_int4 AS next', [1])).rows,
  )
  await attempt('tables: DELETE counts', ['DELETE', 2], async () => {
    const { command, rowCount } = await client.query('DELETE FROM every_type WHERE a_bool IS NULL')
    return [command, rowCount]
  })
  await attempt('tables: no row', ['SELECT', 0, []], async () => {
    const { command, rowCount, rows } = await client.query('SELECT id FROM every_type WHERE id = $1', [-1])
    return [command, rowCount, rows]
  })
}

async function zones() {
  await connected({}, async (client, parameters) => {
    await client.query("SET TimeZone TO 'Europe/Berlin'")
    check('zone: reported', parameters.TimeZone, 'Europe/Berlin')
    const summer = new Date('2024-07-01T12:00:00Z')
    const printed = '2024-07-01 14:00:00+02'
    await attempt('zone: printed', printed, () => one(client, 'SELECT $1::timestamptz', [summer], { types: raw }))
    await attempt('zone: parsed', summer, () => one(client, 'SELECT $1::timestamptz', [summer]))
    await attempt('zone: read as local', summer, () => one(client, "SELECT '2024-07-01 14:00:00'::timestamptz"))
    await attempt('zone: a parameter is local', summer, () =>
      one(client, 'SELECT $1::timestamptz', ['2024-07-01 14:00:00']),
    )
    await client.query('INSERT INTO every_type (id, a_timestamptz) VALUES (101, $1)', [summer])
    await attempt('zone: written', summer, () => one(client, 'SELECT a_timestamptz FROM every_type WHERE id = 101'))
    await attempt('zone: by set_config', 'Asia/Tokyo', () => one(client, "SELECT set_config('TimeZone', 'Asia/Tokyo', false)"))
    check('zone: by set_config, reported', parameters.TimeZone, 'Asia/Tokyo')
    await client.query('RESET TimeZone')
    check('zone: reset', parameters.TimeZone, 'UTC')
  })
}

async function calls(client) {
  await attempt('calls: SELECT f()', 5, () => one(client, 'SELECT add($1, $2)', [2, 3]))
  await attempt('calls: SELECT * FROM f()', [[5]], () => rows(client, 'SELECT * FROM add(2, 3)'))
  await attempt('calls: an argument in binary', 5, () => one(client, 'SELECT add($1, $2)', [int4(2), 3]))
  await attempt('calls: OUT parameters', [{ quotient: 3, remainder: 2 }], async () =>
    (await client.query('SELECT * FROM divide($1, $2)', [17, 5])).rows.map((row) => ({ ...row })),
  )
  await attempt('calls: CALL', ['CALL', null], async () => {
    const { command, rowCount } = await client.query('CALL write_note($1, $2)', [1, 'first'])
    return [command, rowCount]
  })
  await attempt('calls: CALL by a simple query', 'CALL', async () =>
    (await client.query("CALL write_note(2, 'second')")).command,
  )
  await attempt('calls: a set of rows', [[1, 'first'], [2, 'second']], () =>
    rows(client, 'SELECT * FROM notes_from($1)', [1]),
  )
  for (const [name, given, expected] of [
    ['bool', true, true],
    ['int2', 7, 7],
    ['int8', '1099511627776', '1099511627776'],
    ['numeric', numeric('1.10'), '1.10'],
    ['float8', 0.1, 0.1],
    ['text', 'ü', 'ü'],
    ['bytea', Buffer.from([0, 255]), Buffer.from([0, 255])],
    ['timestamptz', new Date(0), new Date(0)],
    ['uuid', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'],
  ]) {
    await attempt(`calls: same_${name}`, expected, () => one(client, `SELECT same_${name}($1)`, [given]))
    await attempt(`calls: same_${name} of NULL`, null, () => one(client, `SELECT same_${name}($1)`, [null]))
  }
  await attempt('calls: an error of the application', ['AB123', 'refused: no'], async () => {
    const { code, message } = await refused(client, 'SELECT refuse($1)', ['no'])
    return [code, message]
  })
  await attempt('calls: the procedure keeps the key', ['23505', 'notes', 'notes_pkey'], async () => {
    const { code, table, constraint } = await refused(client, 'CALL write_note($1, $2)', [1, 'again'])
    return [code, table, constraint]
  })
}

async function failures(client) {
  await client.query("INSERT INTO customers (id, email, age) VALUES (1, 'a@example.org', 30)")
  const insert = 'INSERT INTO customers VALUES ($1, $2, $3)'
  for (const [name, query, parameters, expected] of [
    ['unique', insert, [2, 'a@example.org', 1], { code: '23505', table: 'customers', constraint: 'customers_email_is_unique' }],
    ['primary key', insert, [1, 'b@example.org', 1], { code: '23505', table: 'customers', constraint: 'customers_pkey' }],
    ['check', insert, [3, 'c@example.org', -1], { code: '23514', table: 'customers', constraint: 'customers_are_born' }],
    ['not null', insert, [4, null, 1], { code: '23502', table: 'customers', column: 'email', constraint: undefined }],
    [
      'foreign key',
      'INSERT INTO orders VALUES (1, $1, 5)',
      [99],
      { code: '23503', table: 'orders', constraint: 'orders_have_a_customer' },
    ],
    ['detail of a duplicate', insert, [2, 'a@example.org', 1], { detail: 'Key (email)=(a@example.org) already exists.' }],
    ['schema', insert, [2, 'a@example.org', 1], { schema: 'public', severity: 'ERROR' }],
    ['division by zero', 'SELECT 1 / $1::int4', [0], { code: '22012', message: 'division by zero' }],
    ['integer out of range', 'SELECT $1::int4 + 1', [2147483647], { code: '22003' }],
    ['not a number', 'SELECT $1::int4', ['x'], { code: '22P02' }],
    ['text too long', 'INSERT INTO every_type (id, a_varchar) VALUES (50, $1)', ['thirteen chars'], { code: '22001' }],
    ['syntax', 'SELEC 1', undefined, { code: '42601', position: '1' }],
    ['syntax in the middle', 'SELECT 1 FROM FROM x', [], { code: '42601', position: '15' }],
    ['undefined table', 'SELECT * FROM no_such_table', undefined, { code: '42P01', position: '15' }],
    ['undefined column', 'SELECT no_such_column FROM customers', [], { code: '42703', position: '8' }],
    ['undefined function', 'SELECT no_such_function(1)', [], { code: '42883', position: '8' }],
    ['unknown setting', 'SET no_such_setting = 1', undefined, { code: '42704' }],
    ['too few parameters', 'SELECT $1::int4 + $2::int4', [1], { code: '08P01' }],
    ['too many parameters', 'SELECT $1::int4', [1, 2], { code: '08P01' }],
    ['a binary value of wrong length', 'SELECT $1::int4', [Buffer.alloc(3)], { code: '08P01' }],
    ['a binary value that is too long', 'SELECT $1::int4', [Buffer.alloc(8)], { code: '22P03' }],
    ['a NUL in a text', 'SELECT $1::text', ['a\0b'], { code: '22021' }],
    ['bytes that are not UTF-8', 'SELECT $1::text', [Buffer.from([0xff])], { code: '22021' }],
  ]) {
    await attempt(`errors: ${name}`, expected, async () => {
      const error = await refused(client, query, parameters)
      return Object.fromEntries(Object.keys(expected).map((key) => [key, error[key]]))
    })
    await attempt(`errors: works after ${name}`, 1, () => one(client, 'SELECT 1'))
  }
  await attempt('errors: within several statements', '22012', async () =>
    (await refused(client, 'SELECT 1; SELECT 1 / 0; SELECT 2')).code,
  )
  await attempt('errors: works after several', 1, () => one(client, 'SELECT 1'))
}

async function statements(client) {
  const named = { name: 'double', text: 'SELECT $1::int4 * 2 AS double' }
  await attempt('statements: prepared by name, used again', [...Array(50).keys()].map((number) => number * 2), async () => {
    const found = []
    for (let number = 0; number < 50; number += 1) found.push(await one(client, named.text, [number], named))
    return found
  })
  await attempt('statements: prepared, binary', 84, () => one(client, named.text, [42], { ...named, binary: true }))
  await attempt('statements: prepared and failing, used again', ['22012', 5], async () => {
    const query = { name: 'divide', text: 'SELECT 10 / $1::int4' }
    const error = await refused(client, { ...query, values: [0] })
    return [error.code, await one(client, query.text, [2], query)]
  })
  await attempt('statements: several in one simple query', [[{ a: 1 }], [{ b: 2 }]], async () =>
    (await client.query('SELECT 1 AS a; SELECT 2 AS b')).map(({ rows }) => rows.map((row) => ({ ...row }))),
  )
  const series = 'SELECT n FROM generate_series(1, $1::int4) AS n'
  await attempt('statements: rows in portions, by the driver', 250, async () =>
    (await client.query({ text: series, values: [250], rows: 100 })).rows.length,
  )
  await attempt('statements: a portal in portions', [100, 100, 50, 0], async () => {
    const cursor = client.query(new Cursor(series, [250]))
    const counts = []
    for (let portion = 0; portion < 4; portion += 1) counts.push((await cursor.read(100)).length)
    await cursor.close()
    return counts
  })
  await attempt('statements: a portal closed early', [10, 1], async () => {
    const cursor = client.query(new Cursor(series, [100000]))
    const read = await cursor.read(10)
    await cursor.close()
    return [read.length, await one(client, 'SELECT 1')]
  })
  await attempt('statements: a portal that fails', ['22012', 1], async () => {
    const cursor = client.query(new Cursor('SELECT 10 / (3 - n) FROM generate_series(1, 5) AS n', []))
    const code = await cursor.read(10).then(
      () => 'no error',
      (error) => error.code,
    )
    return [code, await one(client, 'SELECT 1')]
  })
  await attempt('statements: a large value', 1 << 20, async () => (await one(client, 'SELECT $1::text', ['x'.repeat(1 << 20)])).length)
  await attempt('statements: many rows', 20000, async () => (await rows(client, series, [20000])).length)

  await connected({ pipeline: true }, async (pipe) => {
    await attempt('statements: a pipeline', [...Array(100).keys()], () =>
      Promise.all([...Array(100).keys()].map((number) => one(pipe, 'SELECT $1::int4', [number]))),
    )
    await attempt('statements: an error within a pipeline', [3, '22012', 6], () =>
      Promise.all([2, 0, 1].map((divisor) => one(pipe, 'SELECT 6 / $1::int4', [divisor]).catch((error) => error.code))),
    )
    await attempt('statements: writes in a pipeline', [1, 1, 1], async () => {
      const inserts = [1001, 1002, 1003].map((id) => pipe.query('INSERT INTO notes VALUES ($1, $2)', [id, 'piped']))
      return (await Promise.all(inserts)).map(({ rowCount }) => rowCount)
    })
  })
  const pool = new Pool({ ...address, max: 4 })
  await attempt('statements: a pool', [...Array(40).keys()], () =>
    Promise.all([...Array(40).keys()].map((number) => one(pool, 'SELECT $1::int4', [number]))),
  )
  await attempt('statements: a pool sees what was written', '3', () => one(pool, "SELECT count(*) FROM notes WHERE body = 'piped'"))
  await pool.end()

  await attempt('statements: cancelled', ['57014', 'canceling statement due to user request'], async () => {
    const error = await new Promise((resolve) => {
      const query = client.query(new Query(HEAVY, (error) => resolve(error)))
      setTimeout(() => new Client(address).cancel(client, query), 500)
    })
    return [error?.code, error?.message]
  })
  await attempt('statements: works after a cancel', 1, () => one(client, 'SELECT 1'))
  await attempt('statements: timed out', ['57014', 'canceling statement due to statement timeout'], () =>
    connected({ statement_timeout: 300 }, async (hasty) => {
      const { code, message } = await refused(hasty, HEAVY)
      return [code, message]
    }),
  )
}

async function transactions(client) {
  await connected({}, async (other) => {
    const count = () => one(other, 'SELECT count(*) FROM notes WHERE id > 2000')
    await client.query('BEGIN')
    await client.query("INSERT INTO notes VALUES (2001, 'kept')")
    await attempt('transactions: not seen before commit', '0', count)
    await client.query('SAVEPOINT a')
    await client.query("INSERT INTO notes VALUES (2002, 'dropped')")
    await client.query('ROLLBACK TO a')
    await client.query('COMMIT')
    await attempt('transactions: seen after commit', '1', count)
    await client.query('BEGIN')
    await attempt('transactions: an error', '22012', async () => (await refused(client, 'SELECT 1 / 0')).code)
    await attempt('transactions: refused until it ends', '25P02', async () => (await refused(client, 'SELECT 1')).code)
    await attempt('transactions: COMMIT rolls a failed one back', 'ROLLBACK', async () => (await client.query('COMMIT')).command)
  })
}

async function schema(client) {
  const refusal = async (query) => {
    const { code, constraint } = await refused(client, query)
    return [code, constraint]
  }
  const command = async (query) => (await client.query(query)).command
  await attempt('schema: CREATE TABLE', 'CREATE', () =>
    command('CREATE TABLE parcels (id serial PRIMARY KEY, weight numeric(8, 3), label text NOT NULL UNIQUE)'),
  )
  await attempt('schema: numbers from its sequence', [[1], [2]], () =>
    rows(client, "INSERT INTO parcels (weight, label) VALUES (1.25, 'a'), ($1, 'b') RETURNING id", [2]),
  )
  await attempt('schema: a CHECK over rows that break it', ['23514', 'light'], () =>
    refusal('ALTER TABLE parcels ADD CONSTRAINT light CHECK (weight < 2)'),
  )
  const named = { name: 'parcels', text: 'SELECT * FROM parcels ORDER BY id LIMIT 1', rowMode: 'array' }
  await attempt('schema: a named statement', [[1, '1.250', 'a']], async () => (await client.query(named)).rows)
  await attempt('schema: ADD COLUMN', 'ALTER', () => command('ALTER TABLE parcels ADD COLUMN fragile boolean NOT NULL DEFAULT false'))
  await attempt('schema: the named statement has to be prepared anew', '0A000', async () => (await refused(client, named)).code)
  await attempt('schema: a new column', [[1, '1.250', 'a', false]], () => rows(client, `${named.text}`))
  await attempt('schema: the key holds', ['23505', 'parcels_label_key'], () =>
    refusal("INSERT INTO parcels (label) VALUES ('b')"),
  )
  await attempt('schema: rolled back', '42P01', async () => {
    await client.query('BEGIN')
    await client.query('CREATE TABLE gone (id integer PRIMARY KEY)')
    await client.query('ROLLBACK')
    return (await refused(client, 'SELECT * FROM gone')).code
  })
  await attempt('schema: DROP TABLE', 'DROP', () => command('DROP TABLE parcels'))
}

async function main() {
  await connecting()
  await connected({}, async (client) => {
    await types(client)
    await tables(client)
    await zones()
    await calls(client)
    await failures(client)
    await statements(client)
    // They read on one connection what another has written and not committed: under locks, such a program waits for
    // itself, and the harness leaves the flag out.
    if (flags.includes('--transactions')) await transactions(client)
    if (flags.includes('--schema')) await schema(client)
  })
}

main()
  .catch((error) => check('the program runs to its end', `${error.code ?? ''} ${error.stack}`, ''))
  .then(finish)
