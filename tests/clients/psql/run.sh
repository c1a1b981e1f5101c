#!/bin/sh
# psql against a server: run.sh HOST PORT [--transactions] [--write]
#
# Each script under `scripts` is a check: psql's output has to be the `.out` beside it, after what differs from run to
# run is replaced (port, durations) or left out (places in PostgreSQL's sources, and hints: each server has its own).
# `--write` writes the `.out` files instead, from a PostgreSQL with types.sql loaded. Scripts in `scripts/transactions` need interactive
# transactions; those in `scripts/schema` leave the schema as it was. Those in `scripts/serializable` make writes that would
# change a plan: they are left out where our server has one, which is where it is given `--transactions`.
set -u
host=$1 port=$2
shift 2
folder=$(dirname "$0")/scripts
scripts=$(echo "$folder"/*.sql "$folder"/schema/*.sql)
write=false
transactions=false
for flag in "$@"; do
  case $flag in
    --transactions)
      transactions=true
      scripts="$scripts $(echo "$folder"/transactions/*.sql)"
      ;;
    --write) write=true ;;
  esac
done
version=$(psql -X -At -h "$host" -p "$port" -U anabranch -d anabranch -c 'SHOW server_version')
case $transactions:$version in
  true:*anabranch*) ;;
  *) scripts="$scripts $(echo "$folder"/serializable/*.sql)" ;;
esac
scratch=$(mktemp -d)
trap 'rm -r "$scratch"' EXIT
passed=0 failed=0
for script in $scripts; do
  name=$(basename "$script" .sql)
  case $script in
    */transactions/*) name="transactions: $name" ;;
    */schema/*) name="schema: $name" ;;
    */serializable/*) name="serializable: $name" ;;
    *) name="scripts: $name" ;;
  esac
  # From standard input, so that messages do not begin with a file and a line.
  PGTZ=UTC PGCLIENTENCODING=UTF8 psql -X -a -h "$host" -p "$port" -U anabranch -d anabranch <"$script" 2>&1 |
    sed -e "s/port \"$port\"/port \"PORT\"/" -e 's/^Time: .*/Time: SOME ms/' -e '/^LOCATION: /d' -e '/^HINT: /d' \
      -e 's/^psql (.*, server .*)$/psql/' >"$scratch/out"
  if $write; then
    cp "$scratch/out" "${script%.sql}.out"
  elif diff -u "${script%.sql}.out" "$scratch/out" >"$scratch/diff"; then
    passed=$((passed + 1))
    echo "ok $name"
  else
    failed=$((failed + 1))
    sed 's/^/  /' "$scratch/diff"
    expected=$(sed -n '4,$ s/^-//p' "$scratch/diff" | head -n 1)
    got=$(sed -n '4,$ s/^+//p' "$scratch/diff" | head -n 1)
    echo "FAILED $name: got '$got' expected '$expected'"
  fi
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
