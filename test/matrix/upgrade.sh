#!/usr/bin/env bash
# upgrade.sh LAST FIRST SECOND ...
#	In a chroot of test/matrix/run: upgrades a cluster by pg_upgrade from FIRST to SECOND
#	and so on to LAST, and then dumps and restores a database.  Stored values must be the
#	same.  Digests and runs must be whole or say that they are not, with a hint that helps.
#	Then migration.sh loses objects of many kinds on the way from FIRST to each other one.

set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=test/lib/tap.sh
. test/lib/tap.sh
LAST=$1
shift
RELEASES=("$@")
DATA=/tmp/upgrade

bin() { echo "/usr/lib/postgresql/$1/bin"; }
as_postgres() { su postgres -c "cd /tmp && $1"; }
sql() { as_postgres "psql -h /tmp -X -q -At -d ${DB:-shop} -v VERBOSITY=verbose" 2>&1; }
start() { as_postgres "$(bin "$1")/pg_ctl -D $DATA/$1 -l $DATA/log -w -s -o '-c listen_addresses= -k /tmp' start"; }
stop() { as_postgres "$(bin "$1")/pg_ctl -D $DATA/$1 -m fast -w -s stop"; }
init() { as_postgres "$(bin "$1")/initdb -D $DATA/$1 -U postgres -A trust -E UTF8 --no-locale --no-sync $([ "$1" -lt 18 ] || echo --no-data-checksums)" >/dev/null; }

# The packages of older releases are those of older Debians.
install_releases() {
	local pg codename mirror
	mirror=$(awk '$1 == "deb" { print $2; exit }' /etc/apt/sources.list)
	for pg in "${RELEASES[@]}"; do
		case $pg in 15) codename=bookworm ;; 17) codename=trixie ;; *) continue ;; esac
		echo "deb $mirror $codename main" >"/etc/apt/sources.list.d/$codename.list"
		printf 'Package: src:postgresql-%s\nPin: release n=%s\nPin-Priority: 990\n' "$pg" "$codename" >"/etc/apt/preferences.d/$codename"
	done
	apt-get -qq update
	for pg in "${RELEASES[@]}"; do
		apt-get -qq -y --no-install-recommends install "postgresql-$pg" "postgresql-server-dev-$pg" gcc libc6-dev libxxhash-dev make
		make -s clean PG_CONFIG="$(bin "$pg")/pg_config"
		make -s -j2 install with_llvm=no docdir=/tmp/doc PG_CONFIG="$(bin "$pg")/pg_config" >/dev/null
	done
}

fill() {
	as_postgres "createdb -h /tmp shop && createdb -h /tmp other"
	for DB in shop other; do
		sql <<-'SQL'
			CREATE EXTENSION dblink; CREATE EXTENSION iblt_audit CASCADE; CREATE EXTENSION iblt_live; CREATE EXTENSION kbf;
			CREATE TABLE t (id int PRIMARY KEY, v text);
			INSERT INTO t SELECT g, 'row ' || g FROM generate_series(1, 20000) g;
		SQL
	done
	DB=shop
	sql <<-'SQL'
		CREATE TABLE kept AS SELECT iblt_agg(id, iblt_checksum(t.*)) AS sketch, iblt_strata_agg(id, iblt_checksum(t.*)) AS strata, kbf_agg(id, 1 + id % 7, 20000) AS filter FROM t;
		CALL iblt_track('t');
		CALL iblt_audit_run('host=/tmp dbname=other', '{t}', max_time => '1 ms');
	SQL
}

VALUES_HASH="SELECT md5(concat(sketch::bytea, strata::bytea, filter::bytea)) FROM kept"

# What holds after each upgrade.
check() {
	local how=$1 hint answer
	same "$how: stored values are the same" "$(sql <<<"$VALUES_HASH")" "$HASH"
	same "$how: and what aggregates make now" "$(sql <<<'SELECT (SELECT iblt_agg(id, iblt_checksum(t.*)) FROM t) = sketch FROM kept')" t
	answer=$(sql <<<"SELECT iblt_live('t')")
	same "$how: a digest is an error" "$(grep -oE '(IB008|55000)' <<<"$answer" | head -n 1)" "$2"
	hint=$(sed -n 's/^HINT: *//p' <<<"$answer" | grep -oE "CALL [^;]*\)" | head -n 1)
	same "$how: its hint works ($hint)" "$(sql <<<"$hint" | grep -c ERROR)" 0
	same "$how: and then the digest is right" "$(sql <<<"SELECT iblt_live_verify('t')")" t
}

install_releases
rm -rf "$DATA"
mkdir "$DATA"
chown postgres: "$DATA"
previous=
for pg in "${RELEASES[@]}"; do
	init "$pg"
	if [ -z "$previous" ]; then
		start "$pg"
		fill
		HASH=$(sql <<<"$VALUES_HASH")
	else
		stop "$previous"
		as_postgres "$(bin "$pg")/pg_upgrade -b $(bin "$previous") -B $(bin "$pg") -d $DATA/$previous -D $DATA/$pg -U postgres -s /tmp" >"$DATA/pg_upgrade.log" 2>&1 ||
			{ tail -n 30 "$DATA/pg_upgrade.log"; }
		start "$pg"
		check "pg_upgrade $previous to $pg" IB008
		same "pg_upgrade $previous to $pg: the run is there" "$(sql <<<'SELECT count(*) FROM iblt_audit_run_stats')" 1
		echo "# resumed: $(sql <<<"CALL iblt_audit_resume(1, 'host=/tmp dbname=other')" | head -n 3)"
		same "pg_upgrade $previous to $pg: a comparison is right" "$(sql <<<"SELECT count(*) FROM iblt_compare('t', 'host=/tmp dbname=other')")" 0
	fi
	previous=$pg
done

as_postgres "createdb -h /tmp restored && $(bin "$LAST")/pg_dump -h /tmp shop | psql -h /tmp -X -q -d restored -v ON_ERROR_STOP=1" >/dev/null
DB=restored
check "dump and restore" IB008
same "dump and restore: runs are not there" "$(sql <<<'SELECT count(*) FROM iblt_audit_run_stats')" 0
same "dump and restore: a run can begin" "$(sql <<<"CALL iblt_audit_run('host=/tmp dbname=other', '{t}')" | grep -c ERROR)" 0
stop "$LAST"
for pg in "${RELEASES[@]:1}"; do
	passed "dump from ${RELEASES[0]} and restore in $pg: each loss is told" test/matrix/migration.sh "$(bin "${RELEASES[0]}")" "$(bin "$pg")"
done
done_counting
