package stock

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

const levelOf = `SELECT amount FROM level WHERE warehouse_id = $1 AND part = $2`

var ErrTooFew = errors.New("too few")

type Store struct {
	db *sql.DB
}

// Move takes parts from one warehouse to another.
func (s *Store) Move(ctx context.Context, from, to int64, part string, n int64) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	var have int64
	if err := tx.QueryRowContext(ctx, levelOf, from, part).Scan(&have); err != nil {
		return fmt.Errorf("level: %w", err)
	}
	if have < n {
		return ErrTooFew
	}
	if err := add(ctx, tx, from, part, -n); err != nil {
		return err
	}
	if err := add(ctx, tx, to, part, n); err != nil {
		return err
	}
	return tx.Commit()
}

func add(ctx context.Context, tx *sql.Tx, warehouse int64, part string, n int64) error {
	_, err := tx.ExecContext(ctx,
		"UPDATE level SET amount = amount + $3 WHERE warehouse_id = $1 AND part = $2", warehouse, part, n)
	return err
}

func (s *Store) Rename(ctx context.Context, id int64, name string) error {
	stmt, err := s.db.Prepare("UPDATE warehouse SET name = ? WHERE id = ?")
	if err != nil {
		return err
	}
	defer stmt.Close()
	_, err = stmt.Exec(name, id)
	return err
}

func (s *Store) Purge(ctx context.Context, table string, id int64) error {
	query := fmt.Sprintf("DELETE FROM %s WHERE id = %d", table, id)
	_, err := s.db.ExecContext(ctx, query)
	return err
}

func (s *Store) Parts(ctx context.Context, ids []int64) error {
	for _, id := range ids {
		if _, err := s.db.ExecContext(ctx, "DELETE FROM level WHERE warehouse_id = $1", id); err != nil {
			return err
		}
	}
	return nil
}
