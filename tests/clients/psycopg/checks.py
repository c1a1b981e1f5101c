"""Counts checks and prints one line for each; the harness reads the lines."""

import math

PASSED = 0
FAILED = 0


def same(got, expected):
    """Whether two values are equal and of one type; NaN equals NaN, and -0 is not 0."""
    if type(got) is not type(expected):
        return False
    if isinstance(got, list):
        return len(got) == len(expected) and all(map(same, got, expected))
    if isinstance(got, float):
        if math.isnan(got):
            return math.isnan(expected)
        return got == expected and math.copysign(1, got) == math.copysign(1, expected)
    # Decimals of different scale are equal to Python, but not to PostgreSQL's text.
    return got == expected and (not hasattr(got, "as_tuple") or str(got) == str(expected))


def check(name, got, expected):
    """One check: `got` has to be `expected`, type included."""
    global PASSED, FAILED
    if same(got, expected):
        PASSED += 1
        print(f"ok {name}", flush=True)
    else:
        FAILED += 1
        print(f"FAILED {name}: got {got!r} expected {expected!r}", flush=True)


def attempt(name, expected, function):
    """One check of what `function` returns; an exception is its failure, and the program goes on."""
    try:
        got = function()
    except Exception as error:  # whatever the driver raises is what was got
        got = f"{type(error).__name__}: {error}".replace("\n", " | ")
    check(name, got, expected)


def finish():
    """Prints the count; the program's exit code."""
    print(f"{PASSED} passed, {FAILED} failed", flush=True)
    return 1 if FAILED else 0
