#!/bin/bash
# Runs a command beside a PostgreSQL of its own, which nobody else reaches:
#
#   private_postgresql.sh COMMAND ARGUMENT...
#
# The command finds in its environment
#   ICESTREAM_TEST_POSTGRESQL        postgresql://icestream@/postgres?host=FOLDER, by a local socket
#   ICESTREAM_TEST_POSTGRESQL_TCP    postgresql://secret@127.0.0.1:PORT/postgres, whose password stands in PGPASSFILE
#   ICESTREAM_TEST_POSTGRESQL_HOME   a folder: while it holds the file `away`, a server that has ended is not started
#                                    again; data/postmaster.pid names the one that runs
# Ends with the command's exit code, or with 77 and a reason where PostgreSQL is not installed.
set -u
skip() {
  echo "skipped: $1"
  exit 77
}

bin=$(printf '%s\n' /usr/lib/postgresql/*/bin | sort -V | tail -1)
[ -x "$bin/initdb" ] || bin=$(dirname "$(command -v initdb || echo /nowhere/initdb)")
[ -x "$bin/initdb" ] || skip "PostgreSQL is not installed (package postgresql)"
version=$("$bin/postgres" --version | grep -oE '[0-9]+' | head -1)
[ "$version" -ge 15 ] || skip "PostgreSQL $version is installed, and 15 or later is expected"

# The server refuses to run as root.
as=()
owner=$(id -un)
if [ "$(id -u)" = 0 ]; then
  owner=nobody
  ! getent passwd postgres >/dev/null || owner=postgres
  as=(setpriv "--reuid=$owner" "--regid=$(id -g "$owner")" --clear-groups)
fi
home=$(mktemp -d "${TMPDIR:-/tmp}/icestream-postgresql.XXXXXX") || exit 1
main=$$
server=
over() {
  touch "$home/over"
  [ -z "$server" ] || wait "$server"
  rm -rf "$home"
}
trap over EXIT
trap 'exit 143' TERM INT HUP
chown "$owner" "$home"
cd "$home" || exit 1

password=a-word-that-no-log-may-hold
"${as[@]}" "$bin/initdb" --no-sync --no-locale -E UTF8 -A trust -U icestream -D data >initdb.log 2>&1 ||
  { cat initdb.log; exit 1; }
port=$((20000 + RANDOM))
"${as[@]}" tee -a data/postgresql.conf >/dev/null <<END
listen_addresses = '127.0.0.1'
port = $port
unix_socket_directories = '$home'
shared_buffers = 32MB
max_connections = 60
logging_collector = off
END
"${as[@]}" tee data/pg_hba.conf >/dev/null <<END
local all icestream trust
local all secret scram-sha-256
host all secret 127.0.0.1/32 scram-sha-256
END

# Starts the server again when it has ended, and ends it with this script.
serve() {
  trap '' INT TERM
  while [ ! -e over ] && kill -0 "$main" 2>/dev/null; do
    while [ -e away ] && [ ! -e over ] && kill -0 "$main" 2>/dev/null; do sleep 0.02; done
    "${as[@]}" "$bin/postgres" -D data >>server.log 2>&1 &
    local child=$!
    while kill -0 $child 2>/dev/null; do
      if [ -e over ] || ! kill -0 "$main" 2>/dev/null; then kill -QUIT $child 2>/dev/null; fi
      sleep 0.02
    done
    wait $child
  done
}
serve &
server=$!
for ((i = 0; i < 500; i++)); do
  "$bin/pg_isready" -q -h "$home" -p "$port" && break
  sleep 0.02
done
"$bin/psql" -q -h "$home" -p "$port" -U icestream -d postgres -c \
  "CREATE ROLE secret LOGIN PASSWORD '$password'; GRANT CREATE ON DATABASE postgres TO secret" || { cat server.log; exit 1; }
echo "*:*:*:secret:$password" >pass
chmod 600 pass
export PGPASSFILE=$home/pass ICESTREAM_TEST_POSTGRESQL_HOME=$home
export ICESTREAM_TEST_POSTGRESQL="postgresql://icestream@:$port/postgres?host=$home"
export ICESTREAM_TEST_POSTGRESQL_TCP="postgresql://secret@127.0.0.1:$port/postgres"
cd "$OLDPWD" || exit 1
"$@"
