# common.sh
#	The demo, the tests and the benchmark share this: installing missing packages,
#	a temporary directory that never outlives its script, a throwaway installation
#	of PostgreSQL, and servers inside it.
#
# A script sources this file and calls "supervise KIND SCRIPT" for itself.  The
# outer half runs as the user who called, maybe root.  It installs packages, makes
# the directory and copies the checkout into it.  The inner half runs there, never
# as root, in a process group of its own.  So the outer half can end it at any
# moment and remove everything.
#
# Nothing here touches the system's PostgreSQL directories or clusters.

# shellcheck shell=bash

TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

say() { printf '%s\n' "$*"; }

die() {
	printf 'error: %s\n' "$*" >&2
	exit 1
}

# --- packages -----------------------------------------------------------------

# Run a command as root.
as_root() {
	if [ "$(id -u)" -eq 0 ]; then
		"$@"
	elif command -v sudo >/dev/null; then
		sudo "$@"
	else
		die "not root, and there is no sudo; as root, please run: $*"
	fi
}

is_installed() {
	[ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# Fetch the package lists, at most once, and only when something is missing.
apt_update_once() {
	if [ -z "${APT_UPDATED-}" ]; then
		say "Fetching the package lists ..."
		as_root apt-get -qq update || say "warning: apt-get update failed, using the old lists" >&2
		APT_UPDATED=1
	fi
}

# Set PG_N and PG_CONFIG: the server that $PG_CONFIG names, else the newest that is
# installed, else Debian's default.
choose_server() {
	local candidate
	PG_OWN_BUILD=
	if [ -n "${PG_CONFIG-}" ]; then
		PG_CONFIG=$(command -v "$PG_CONFIG") || die "PG_CONFIG=$PG_CONFIG does not exist"
		# /usr/bin/pg_config may be a wrapper: take the server's own.
		candidate=$("$PG_CONFIG" --bindir)/pg_config
		if [ -x "$candidate" ]; then PG_CONFIG=$candidate; fi
		PG_N=$("$PG_CONFIG" --version | sed -E 's/^PostgreSQL ([0-9]+).*/\1/')
		if [ "$PG_CONFIG" != "/usr/lib/postgresql/$PG_N/bin/pg_config" ]; then PG_OWN_BUILD=1; fi
		return
	fi
	PG_N=$(for candidate in /usr/lib/postgresql/*/bin/postgres; do
		if [ -x "$candidate" ]; then basename "${candidate%/bin/postgres}"; fi
	done | sort -V | tail -n 1)
	if [ -z "$PG_N" ]; then
		command -v apt-cache >/dev/null || die "no PostgreSQL server here, and no apt: set PG_CONFIG"
		if ! apt-cache show postgresql >/dev/null 2>&1; then apt_update_once; fi
		PG_N=$(apt-cache depends postgresql 2>/dev/null | sed -nE 's/.*Depends: postgresql-([0-9]+)$/\1/p' | sort -V | tail -n 1) || true
		[ -n "$PG_N" ] || die "apt knows no postgresql package: set PG_CONFIG"
	fi
	PG_CONFIG=/usr/lib/postgresql/$PG_N/bin/pg_config
}

# The packages that a run of this kind needs.
needed_packages() {
	local kind=$1
	if [ -z "$PG_OWN_BUILD" ]; then echo "postgresql-$PG_N" "postgresql-server-dev-$PG_N"; fi
	echo gcc libc6-dev make libxxhash-dev
	if [ "$kind" = bench ]; then echo postgresql-comparator perl; fi
	if [ "$kind" = test ]; then
		# clang and its run-time library: the sanitizers and libFuzzer
		echo clang libclang-rt-dev libipc-run-perl perl python3
		# the programs in doc/examples
		echo python3-cryptography python3-psycopg2
		if [ -z "$PG_OWN_BUILD" ]; then echo "postgresql-$PG_N-plpgsql-check"; fi
	fi
}

# install_packages leaves nothing else behind, however it ends.
DROPIN_DIR=/etc/postgresql-common/createcluster.d
DROPIN=$DROPIN_DIR/iblt-no-main-cluster.conf
end_installation() {
	kill "$ticker" 2>/dev/null || true
	rm -f "$INSTALL_LOG"
	if [ -e "$DROPIN" ]; then as_root rm -f "$DROPIN"; fi
	if [ -n "$DROPIN_DIR_MADE" ]; then as_root rmdir --ignore-fail-on-non-empty "$DROPIN_DIR"; fi
	trap - EXIT
}

# Install the packages without letting Debian create and start a cluster, which
# a new server package would do.
install_packages() {
	local rc=0 started=$SECONDS
	ticker=
	say "Installing: $*"
	apt_update_once
	INSTALL_LOG=$(mktemp)
	DROPIN_DIR_MADE=
	trap end_installation EXIT
	if [[ " $* " == *" postgresql-$PG_N "* ]]; then
		if [ ! -d "$DROPIN_DIR" ]; then DROPIN_DIR_MADE=1; fi
		as_root mkdir -p "$DROPIN_DIR"
		echo 'create_main_cluster = false' | as_root tee "$DROPIN" >/dev/null
	fi
	while sleep 10 >/dev/null 2>&1; do say "  ... $((SECONDS - started)) s: $(tail -n 1 "$INSTALL_LOG" | cut -c 1-100)"; done &
	ticker=$!
	as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=120 \
		install -y --no-install-recommends "$@" >"$INSTALL_LOG" 2>&1 </dev/null || rc=$?
	if [ $rc -ne 0 ]; then
		tail -n 20 "$INSTALL_LOG" >&2
		die "apt-get install failed"
	fi
	end_installation
	say "Installed $(printf '%s\n' "$@" | wc -l) packages and what they need, in $((SECONDS - started)) s. \"apt-get remove\" takes them away again."
}

ensure_packages() {
	local package missing=()
	if ! command -v dpkg-query >/dev/null; then
		say "Not a Debian system: assuming that everything needed is installed."
		return
	fi
	# shellcheck disable=SC2046 # one word a package is meant
	for package in $(needed_packages "$1"); do
		if is_installed "$package"; then continue; fi
		# Before bookworm the sanitizers' run-time came with clang itself.  The benchmark
		# and the tests can do without the two others.
		case $package in libclang-rt-dev | postgresql-comparator | *-plpgsql-check)
			apt_update_once
			# (apt-cache knows packages that others only mention, and shows nothing of them)
			if [ -z "$(apt-cache show "$package" 2>/dev/null)" ]; then continue; fi ;;
		esac
		missing+=("$package")
	done
	if [ ${#missing[@]} -gt 0 ]; then install_packages "${missing[@]}"; fi
}

# --- the temporary directory and the two halves ---------------------------------

# Run a command as the user of the servers: nobody, if we are root.
as_server_user() {
	if [ "$(id -u)" -eq 0 ]; then
		setpriv --reuid=nobody --regid="$(id -g nobody)" --clear-groups -- "$@"
	else
		"$@"
	fi
}

# Is there room in memory for what the tests write?  On two processors that is
# 1.6 GB at a time.  On more, more servers run at a time.
has_room_in_memory() {
	local least=$(((4 + $(nproc 2>/dev/null || echo 1)) * 1024 * 1024)) file_system memory # kB
	file_system=$(df -kP /dev/shm 2>/dev/null | awk 'NR == 2 { print $4 }')
	memory=$(sed -nE 's/^MemAvailable: *([0-9]+) kB$/\1/p' /proc/meminfo 2>/dev/null)
	[ "${file_system:-0}" -ge $least ] && [ "${memory:-0}" -ge $least ]
}

# Set WORK to a new directory that the servers' user owns, can reach and can run
# programs in, with a path short enough for unix sockets.  Tests make and remove
# a hundred thousand files, so they do it in memory unless TMPDIR says where.
make_workdir() {
	local kind=$1 parent first=${TMPDIR:-/tmp}
	if [ "$kind" = test ] && [ -z "${TMPDIR-}" ] && has_room_in_memory; then first=/dev/shm; fi
	for parent in "$first" /tmp /var/tmp; do
		if [ ${#parent} -gt 50 ]; then continue; fi
		WORK=$(mktemp -d "$parent/iblt.XXXXXX" 2>/dev/null) || continue
		WORK=$(cd "$WORK" && pwd -P)
		if [ "$(id -u)" -eq 0 ]; then chown "nobody:$(id -g nobody)" "$WORK"; fi
		if as_server_user sh -c "cp /bin/true '$WORK/probe' && '$WORK/probe' && rm '$WORK/probe'" 2>/dev/null; then
			return
		fi
		rm -rf "$WORK"
	done
	WORK=
	die "no temporary directory that the servers' user can use: set TMPDIR"
}

# The servers' user may have no access to the checkout, and it must stay clean.
copy_checkout() {
	local rc=0
	mkdir "$WORK/tree" "$WORK/tmp" "$WORK/home" "$WORK/s"
	tar -C "$TOP" -cf - --exclude=./.git --exclude=./build --exclude=./results \
		--exclude=./tmp_check --exclude=./log --exclude='./regression.*' \
		--exclude='*.o' --exclude='*.bc' --exclude='*.so' . 2>/dev/null |
		tar -C "$WORK/tree" -xf - --no-same-owner || rc=$?
	[ $rc -le 1 ] || die "could not copy the checkout to $WORK"
	if [ "$(id -u)" -eq 0 ]; then chown -R "nobody:$(id -g nobody)" "$WORK"; fi
	chmod 700 "$WORK/s"
}

# The processes whose program or directory lies in WORK.  All of them are ours,
# even if they have another parent by now.
processes_in_workdir() {
	local proc exe cwd
	for proc in /proc/[0-9]*; do
		exe=$(readlink "$proc/exe" 2>/dev/null) || exe=
		cwd=$(readlink "$proc/cwd" 2>/dev/null) || cwd=
		case "$exe:$cwd" in
		"$WORK"/* | *:"$WORK" | *:"$WORK"/*) echo "${proc#/proc/}" ;;
		esac
	done
}

# Ask the postmasters below WORK to quit.  They end their children.
stop_all_servers() {
	local pidfile pid
	find "$WORK" -name postmaster.pid -type f 2>/dev/null | while read -r pidfile; do
		pid=$(head -n 1 "$pidfile" 2>/dev/null) || continue
		case "$(readlink "/proc/$pid/exe" 2>/dev/null)" in
		"$WORK"/*) kill -QUIT "$pid" 2>/dev/null || true ;;
		esac
	done
}

# End what still runs and remove the directory.  Runs on every way out.
clean_up() {
	local rc=$? tries
	trap - EXIT
	trap '' INT TERM HUP
	cd /
	if [ -n "${INNER-}" ]; then kill -TERM -- "-$INNER" 2>/dev/null || true; fi
	if [ -n "${WORK-}" ]; then
		for tries in $(seq 50); do
			if [ $((tries % 10)) -eq 1 ]; then stop_all_servers; fi
			if [ -z "$(processes_in_workdir)" ]; then break; fi
			sleep 0.2
		done
		if [ -n "${IBLT_TEST_KEEP-}" ] && mkdir -p "$IBLT_TEST_KEEP"; then
			cp -r "$WORK/tree/results" "$WORK/tree/regression.diffs" "$IBLT_TEST_KEEP/" 2>/dev/null || true
		fi
		# shellcheck disable=SC2046 # one word a process is meant
		if [ -n "$(processes_in_workdir)" ]; then kill -KILL $(processes_in_workdir) 2>/dev/null || true; fi
		rm -rf "$WORK" 2>/dev/null || { sleep 1; rm -rf "$WORK"; }
	fi
	exit $rc
}

# supervise KIND SCRIPT: the outer half.  Runs SCRIPT again in the copied
# checkout as the servers' user with a clean environment and IBLT_WORK set.
supervise() {
	local kind=$1 script=$2 rc=0 name pass=()
	umask 022
	if [ -n "${IBLT_TEST_KEEP-}" ]; then IBLT_TEST_KEEP=$(realpath -m "$IBLT_TEST_KEEP"); fi
	choose_server
	ensure_packages "$kind"
	[ -x "$PG_CONFIG" ] || die "$PG_CONFIG does not exist"
	[ -f "$("$PG_CONFIG" --pgxs)" ] || die "PGXS is missing: install the development files of $PG_CONFIG"
	WORK=
	INNER=
	trap clean_up EXIT
	trap 'exit 129' HUP
	trap 'exit 130' INT
	trap 'exit 143' TERM
	make_workdir "$kind"
	copy_checkout
	for name in $(compgen -e | grep -E '^(IBLT_|BENCH_|DEMO_|FUZZ_|MUTANTS)' || true); do
		pass+=("$name=${!name}")
	done
	# A process group of its own, so that all of it can be ended at once.
	set -m
	as_server_user env -i "${pass[@]}" HOME="$WORK/home" TMPDIR="$WORK/tmp" LANG=C.UTF-8 LC_ALL=C.UTF-8 \
		PATH=/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin TERM="${TERM:-dumb}" \
		IBLT_WORK="$WORK" IBLT_PG_CONFIG="$PG_CONFIG" \
		bash "$WORK/tree/$script" </dev/null &
	INNER=$!
	set +m
	wait "$INNER" || rc=$?
	exit $rc
}

# --- the inner half: the throwaway installation ----------------------------------

# The longest common path of three.
common_path() {
	local prefix=$1 path
	for path in "$2" "$3"; do
		while [[ "$path/" != "$prefix/"* ]]; do prefix=${prefix%/*}; done
	done
	echo "$prefix"
}

# Link the entries of directory $1 into directory $2, except our extensions that the
# system may have.
link_entries() {
	local entry name
	mkdir -p "$2"
	for entry in "$1"/*; do
		name=${entry##*/}
		if [ ! -e "$TOP/${name%%[.-]*}.control" ]; then ln -s "$entry" "$2/"; fi
	done
}

# PostgreSQL finds its files relative to its programs.  So copies of the programs
# and links to all other files are an installation of their own.  "make install"
# puts our files there.  Sets PG_CONFIG and PATH to it.
make_installation() {
	local bindir pkglibdir sharedir prefix dir option inst=$WORK/inst
	bindir=$("$IBLT_PG_CONFIG" --bindir)
	pkglibdir=$("$IBLT_PG_CONFIG" --pkglibdir)
	sharedir=$("$IBLT_PG_CONFIG" --sharedir)
	prefix=$(common_path "$bindir" "$pkglibdir" "$sharedir")

	mkdir -p "$inst${bindir#"$prefix"}"
	cp -L "$bindir"/* "$inst${bindir#"$prefix"}/"
	link_entries "$pkglibdir" "$inst${pkglibdir#"$prefix"}"
	link_entries "$sharedir" "$inst${sharedir#"$prefix"}"
	# directories that we write into must be real
	for dir in "$pkglibdir/bitcode" "$sharedir/extension"; do
		if [ -d "$dir" ]; then
			rm "$inst${dir#"$prefix"}"
			link_entries "$dir" "$inst${dir#"$prefix"}"
		fi
	done
	for option in --includedir --pkgincludedir --includedir-server --libdir --localedir; do
		dir=$("$IBLT_PG_CONFIG" "$option")
		if [ "${dir#"$prefix"}" != "$dir" ] && [ ! -e "$inst${dir#"$prefix"}" ]; then
			mkdir -p "$(dirname "$inst${dir#"$prefix"}")"
			ln -s "$dir" "$inst${dir#"$prefix"}"
		fi
	done

	PG_CONFIG=$inst${bindir#"$prefix"}/pg_config
	# Debian's pg_config cannot be moved before 12: translate what it prints.
	if [ "$("$PG_CONFIG" --bindir)" = "$bindir" ]; then
		rm "$PG_CONFIG"
		# shellcheck disable=SC2016 # the script's own arguments
		printf '#!/bin/sh\n"%s" "$@" | sed "s|^%s/|%s/|"\n' "$IBLT_PG_CONFIG" "$prefix" "$inst" >"$PG_CONFIG"
		chmod 755 "$PG_CONFIG"
	fi
	[ "$("$PG_CONFIG" --sharedir)" = "$inst${sharedir#"$prefix"}" ] ||
		die "$IBLT_PG_CONFIG cannot be relocated"
	PATH=$inst${bindir#"$prefix"}:$PATH
	export PG_CONFIG PATH
}

# Build the extension and install it into the throwaway tree.  Arguments go to
# make.  The directory of the documentation may lie outside that tree.  Bitcode, which
# serves the inlining of JIT, is left to check-build.sh.
# shellcheck disable=SC2120 # there may be none
build_and_install() {
	make -s -C "$WORK/tree" -j2 all with_llvm=no PG_CONFIG="$PG_CONFIG" "$@" >"$WORK/build.log" 2>&1 &&
		make -s -C "$WORK/tree" install with_llvm=no PG_CONFIG="$PG_CONFIG" docdir="$WORK/doc" "$@" >>"$WORK/build.log" 2>&1
}

# Every script begins its inner half with this.
enter_work() {
	WORK=$IBLT_WORK
	cd "$WORK/tree" || die "no $WORK/tree"
	make_installation
}

# The tests that follow find initdb.sh as initdb.
remember_initdb() {
	mkdir -p "$WORK/bin"
	ln -s "$WORK/tree/test/lib/initdb.sh" "$WORK/bin/initdb"
	PATH=$WORK/bin:$PATH
	INITDB_COPIES=$WORK/initdb
	export PATH INITDB_COPIES
}

# --- servers ----------------------------------------------------------------------

# start_server NAME PORT [SETTING ...]: a new server that listens on a unix
# socket in $WORK/s alone.
start_server() {
	local name=$1 port=$2 data=$WORK/$1 setting
	shift 2
	initdb -D "$data" -U postgres -A trust -E UTF8 --no-locale --no-sync >"$WORK/$name.initdb.log" 2>&1 ||
		{ cat "$WORK/$name.initdb.log" >&2; die "initdb failed for $name"; }
	{
		echo "listen_addresses = ''"
		echo "unix_socket_directories = '$WORK/s'"
		echo "port = $port"
		echo "fsync = off"
		echo "full_page_writes = off"
		echo "max_wal_size = 8GB"
		for setting in "$@"; do echo "$setting"; done
	} >>"$data/postgresql.conf"
	pg_ctl -D "$data" -l "$WORK/$name.log" -w -s -t 60 start >/dev/null ||
		{ tail -n 20 "$WORK/$name.log" >&2; die "server $name does not start"; }
}

restart_server() {
	pg_ctl -D "$WORK/$1" -l "$WORK/$1.log" -m fast -w -s -t 60 restart >/dev/null ||
		{ tail -n 20 "$WORK/$1.log" >&2; die "server $1 does not restart"; }
}

stop_server() {
	pg_ctl -D "$WORK/$1" -m fast -w -s stop >/dev/null 2>&1 || true
}
