#!/usr/bin/env bash
# emulated.sh PG ARCHITECTURE PROCESSOR
#	In a chroot of test/matrix/run: builds iblt for another processor and tests it in
#	qemu's user mode, first the core's unit tests, then the SQL tests on a server whose
#	program is emulated.  All other programs are this machine's own, because without
#	binfmt_misc an emulated program cannot start another one.  The packages of the other
#	architecture are unpacked in /foreign and never installed.

set -euo pipefail
cd "$(dirname "$0")/../.."
PG=$1
ARCHITECTURE=$2
PROCESSOR=$3
FOREIGN=/foreign
EMULATOR=qemu-$PROCESSOR-static
CROSS=$PROCESSOR-linux-gnu-gcc
BIN=/usr/lib/postgresql/$PG/bin

unpack_foreign() {
	local package
	apt-get -qq update
	apt-get -qq -y --no-install-recommends install gcc "gcc-$PROCESSOR-linux-gnu" "libc6-dev-$ARCHITECTURE-cross" libc6-dev \
		libxxhash-dev make perl debootstrap qemu-user-static
	if [ -e "$FOREIGN/.ready" ]; then return; fi
	rm -rf "$FOREIGN"
	# shellcheck source=/dev/null
	debootstrap --foreign --variant=minbase --arch="$ARCHITECTURE" --include="postgresql-$PG,postgresql-server-dev-$PG" \
		"$(. /etc/os-release && echo "$VERSION_CODENAME")" "$FOREIGN" "$(awk '$1 == "deb" { print $2; exit }' /etc/apt/sources.list)" || :
	# (its status is not reliable without /proc: look whether it has got the packages)
	ls "$FOREIGN/var/cache/apt/archives/postgresql-server-dev-$PG"_*.deb "$FOREIGN/var/cache/apt/archives/postgresql-$PG"_*.deb
	for package in "$FOREIGN"/var/cache/apt/archives/*.deb; do
		case $package in *clang* | *llvm* | *systemd* | *perl* | *python*) ;; *) dpkg-deb -x "$package" "$FOREIGN" ;; esac
	done
	touch "$FOREIGN/.ready"
}

# The core's tests, without the sanitizers, which qemu's user mode does not bear, and with
# fewer rounds of random tests, which would take an hour.
unit() {
	local programs
	read -r -a programs <<<"$(make -s print-unit-programs UNIT_CC="$CROSS -static" | tr ' ' '\n' | grep build/plain/ | tr '\n' ' ')"
	make -s -j2 "${programs[@]}" UNIT_CC="$CROSS -static" WERROR=1
	IBLT_TEST_SCALE=10 test/lib/harness.pl --totals "$TOTALS" --exec "$EMULATOR" "${programs[@]}"
}

# What the build asks for: the directories and flags of the other architecture.
write_pg_config() {
	cat >/usr/local/bin/foreign_pg_config <<-SCRIPT
		#!/bin/sh
		case "\$1" in --bindir) echo $BIN; exit ;; esac
		$BIN/pg_config "\$@" | sed 's| /usr| $FOREIGN/usr|g; s|^/usr|$FOREIGN/usr|'
	SCRIPT
	chmod 755 /usr/local/bin/foreign_pg_config
}

# initdb and pg_ctl start the emulated server, because it has the place of their own.
install_server() {
	printf '#!/bin/sh\nexec %s -L %s %s "$@"\n' "/usr/bin/$EMULATOR" "$FOREIGN" "$FOREIGN$BIN/postgres" >/tmp/postgres
	chmod 755 /tmp/postgres
	rm -f "$BIN/postgres"
	mv /tmp/postgres "$BIN/postgres"
}

build() {
	make -s -j2 all install PG_CONFIG=foreign_pg_config CC="$CROSS" with_llvm=no WERROR=1
}

sql() {
	local log=/tmp/regress.log rc=0
	write_pg_config
	build
	install_server
	rm -rf /tmp/data /tmp/server.log
	chown -R postgres: .
	su postgres -c "$BIN/initdb -D /tmp/data -U postgres -A trust -E UTF8 --no-locale --no-sync"
	printf "listen_addresses = ''\nunix_socket_directories = '/tmp'\nport = 54320\nfsync = off\ntimezone = 'UTC'\njit = off\n" >>/tmp/data/postgresql.conf
	su postgres -c "$BIN/pg_ctl -D /tmp/data -l /tmp/server.log -w -s -t 300 start"
	su postgres -c "psql -h /tmp -p 54320 -X -At -c 'SELECT version()' postgres"
	su postgres -c "PGHOST=/tmp PGPORT=54320 make -s installcheck TAP_TESTS= PG_CONFIG=$BIN/pg_config" >"$log" 2>&1 || rc=$?
	cat "$log"
	if [ $rc -ne 0 ]; then head -n 200 regression.diffs; fi
	su postgres -c "$BIN/pg_ctl -D /tmp/data -m fast -w -s stop"
	awk '/^(test )? *[a-z0-9_]+ +\.\.\. ok/ { passed++ } /\.\.\. FAILED/ { failed++ }
		END { print passed + 0, failed + 0 + (passed + failed == 0), 0 }' "$log" >>"$TOTALS"
}

TOTALS=$(mktemp)
unpack_foreign
for suite in ${IBLT_TEST_SUITES:-unit sql}; do "$suite"; done
test/lib/harness.pl --sum "$TOTALS"
