package main

// Counts checks and prints one line for each; the harness reads the lines.

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/jackc/pgx/v5/pgconn"
)

var passed, failed int

// check compares `got` with `expected`, type included.
func check(name string, got, expected any) {
	if reflect.DeepEqual(got, expected) {
		passed++
		fmt.Printf("ok %s\n", name)
		return
	}
	failed++
	fmt.Printf("FAILED %s: got %#v expected %#v\n", name, got, expected)
}

// attempt checks what `action` returns; an error is its failure, and the program goes on.
func attempt(name string, expected any, action func() (any, error)) {
	got, err := action()
	if err != nil {
		got = fmt.Sprintf("%s: %v", sqlState(err), err)
	}
	check(name, got, expected)
}

// sqlState is the five characters of a server's error; empty for another one.
func sqlState(err error) string {
	var answer *pgconn.PgError
	if errors.As(err, &answer) {
		return answer.Code
	}
	return ""
}

// refused is the error that `action` has to end with.
func refused(action func() error) *pgconn.PgError {
	err := action()
	var answer *pgconn.PgError
	if errors.As(err, &answer) {
		return answer
	}
	return &pgconn.PgError{Code: "none", Message: fmt.Sprintf("not an error of the server: %v", err)}
}

// finish prints the count; the program's exit code.
func finish() int {
	fmt.Printf("%d passed, %d failed\n", passed, failed)
	if failed == 0 {
		return 0
	}
	return 1
}
