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
# With ICESTREAM_TEST_POSTGRESQL_AT="NAME ADDRESS" the server listens there as well, with TLS for that name, and the
# command finds in its environment
#   ICESTREAM_TEST_POSTGRESQL_AT     postgresql://secret@NAME:PORT/postgres
#   PGSSLROOTCERT                    the server's certificate, which signs itself
# Ends with the command's exit code, or with 77 and a reason where no server can be had.
set -u
skip() {
  echo "skipped: $1"
  exit 77
}

# Skips with the last line of a log that says what is wrong, or else with its last line.
skip_for() {
  local line
  line=$(grep -E 'error|ERROR|FATAL|could not' "$2" 2>/dev/null | tail -1)
  skip "$1: ${line:-$(tail -1 "$2" 2>/dev/null)}"
}

# Prints the folder of the newest PostgreSQL that is whole.
newest() {
  local folder program
  { printf '%s\n' /usr/lib/postgresql/*/bin | sort -rV; dirname "$(command -v initdb || echo /nowhere/initdb)"; } |
    while read -r folder; do
      for program in initdb postgres psql pg_isready; do
        [ -x "$folder/$program" ] || continue 2
      done
      [ "$("$folder/postgres" --version | grep -oE '[0-9]+' | head -1)" -ge 15 ] || continue
      echo "$folder"
      break
    done
}
bin=$(newest)
[ -n "$bin" ] || skip "no PostgreSQL of version 15 or later is installed (package postgresql)"

# The server refuses to run as root.
as=()
owner=$(id -un)
if [ "$(id -u)" = 0 ]; then
  owner=nobody
  ! getent passwd postgres >/dev/null || owner=postgres
  as=(setpriv "--reuid=$owner" "--regid=$(id -g "$owner")" --clear-groups)
  # Inside a user namespace there may be no other user; the server gets a namespace of its own, where it is not root.
  if [ "$(awk '{ n += $3 } END { print n }' /proc/self/uid_map)" = 1 ]; then
    owner=root
    as=(unshare --user --map-user=1000 --map-group=1000)
  fi
fi
home=$(mktemp -d "${TMPDIR:-/tmp}/icestream-postgresql.XXXXXX") || skip "there can be no folder in ${TMPDIR:-/tmp}"
before=$PWD
main=$$
server=
over() {
  touch "$home/over"
  [ -z "$server" ] || wait "$server"
  cd / && rm -rf "$home"
}
trap over EXIT
trap 'exit 143' TERM INT HUP
{ cd "$home" && home=$PWD && chown "$owner" .; } || skip "$owner cannot have the folder $home"
"${as[@]}" test -w "$home" || skip "$owner cannot reach the folder $home"
[ "$(printf '%s' "$home/.s.PGSQL.10000" | wc -c)" -le 107 ] || skip "$home is too long for the name of a socket"

read -r name address <<<"${ICESTREAM_TEST_POSTGRESQL_AT:-}"
password=a-word-that-no-log-may-hold
"${as[@]}" "$bin/initdb" --no-sync --no-locale -E UTF8 -A trust -U icestream -D data >initdb.log 2>&1 ||
  skip_for "initdb cannot make a database in $home" initdb.log
{
  "${as[@]}" tee -a data/postgresql.conf >/dev/null <<END &&
listen_addresses = '127.0.0.1${address:+,$address}'
unix_socket_directories = '$home'
shared_buffers = 32MB
max_connections = 100
logging_collector = off
END
    "${as[@]}" tee data/pg_hba.conf >/dev/null <<END
local all icestream trust
local all secret scram-sha-256
host all secret 127.0.0.1/32 scram-sha-256
${address:+hostssl all secret $address/24 scram-sha-256}
END
} 2>initdb.log || skip_for "the database in $home cannot be set up" initdb.log

# Makes the certificate, which is its own root.
certify() {
  "${as[@]}" openssl req -x509 -newkey rsa:2048 -nodes -days 2 -keyout data/server.key -out data/server.crt \
    -subj "/CN=$name" -addext "subjectAltName=DNS:$name" >openssl.log 2>&1 || return 1
  cp data/server.crt root.crt && echo "ssl = on" | "${as[@]}" tee -a data/postgresql.conf >/dev/null
}
if [ -n "$name" ]; then
  command -v openssl >/dev/null || skip "openssl is not installed"
  certify || skip_for "openssl cannot make a certificate" openssl.log
fi

is_over() {
  [ -e over ] || ! kill -0 "$main" 2>/dev/null
}

# Starts the server again when it has ended, if it was ready before; ends it with this script, and cleans up after one
# that was killed.
serve() {
  trap '' INT TERM HUP
  local child
  while ! is_over; do
    while [ -e away ] && ! is_over; do sleep 0.02; done
    "${as[@]}" "$bin/postgres" -D data -p "$port" &
    child=$!
    while kill -0 $child 2>/dev/null; do
      ! is_over || kill -QUIT $child 2>/dev/null
      sleep 0.02
    done
    wait $child
    [ -e ready ] || break
  done
  kill -0 "$main" 2>/dev/null || { cd / && rm -rf "$home"; }
}

# Sets a port on which nobody listens, below those that the system gives away.
choose_port() {
  port=$((10000 + RANDOM % 9000))
  while (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do port=$((10000 + RANDOM % 9000)); done
}

# Starts a server; returns whether it is ready. One that is not has ended.
start() {
  choose_port
  serve >>server.log 2>&1 &
  server=$!
  for ((i = 0; i < 500; i++)); do
    if "$bin/pg_isready" -q -h "$home" -p "$port"; then
      touch ready
      return 0
    fi
    kill -0 "$server" 2>/dev/null || return 1
    sleep 0.02
  done
  skip_for "the server is not ready after 10 s" server.log
}
for ((tries = 0; tries < 5; tries++)); do
  ! start || break
done
[ -e ready ] || skip_for "the server does not start" server.log

"$bin/psql" -q -h "$home" -p "$port" -U icestream -d postgres -c \
  "CREATE ROLE secret LOGIN PASSWORD '$password'; GRANT CREATE ON DATABASE postgres TO secret" || {
  "$bin/pg_isready" -q -h "$home" -p "$port" || skip_for "the server is gone" server.log
  cat server.log
  exit 1
}
echo "*:*:*:secret:$password" >pass
chmod 600 pass
export PGPASSFILE=$home/pass ICESTREAM_TEST_POSTGRESQL_HOME=$home
export ICESTREAM_TEST_POSTGRESQL="postgresql://icestream@:$port/postgres?host=$home"
export ICESTREAM_TEST_POSTGRESQL_TCP="postgresql://secret@127.0.0.1:$port/postgres"
if [ -n "$name" ]; then
  export ICESTREAM_TEST_POSTGRESQL_AT="postgresql://secret@$name:$port/postgres" PGSSLROOTCERT=$home/root.crt
fi
cd "$before" || exit 1
"$@"
