'use strict'
// Counts checks and prints one line for each; the harness reads the lines.

const { isDeepStrictEqual, inspect } = require('node:util')

let passed = 0
let failed = 0

const shown = (value) => inspect(value, { breakLength: Infinity, depth: 5 })

/** One check: `got` has to be `expected`, type included; NaN equals NaN, and -0 is not 0. */
function check(name, got, expected) {
  if (isDeepStrictEqual(got, expected)) {
    passed += 1
    console.log(`ok ${name}`)
  } else {
    failed += 1
    console.log(`FAILED ${name}: got ${shown(got)} expected ${shown(expected)}`)
  }
}

/** One check of what `action` resolves to; an error is its failure, and the program goes on. */
async function attempt(name, expected, action) {
  let got
  try {
    got = await action()
  } catch (error) {
    got = `${error.code ?? error.name}: ${error.message}`
  }
  check(name, got, expected)
}

/** Prints the count and sets the program's exit code. */
function finish() {
  console.log(`${passed} passed, ${failed} failed`)
  process.exitCode = failed === 0 ? 0 : 1
}

module.exports = { attempt, check, finish }
