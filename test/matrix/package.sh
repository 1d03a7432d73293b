#!/usr/bin/env bash
# package.sh PG
#	In a chroot of test/matrix/run: builds the Debian packages twice, in two directories,
#	which must give the same files, installs them in a second chroot that has a server
#	and nothing to build with, creates the extension as a plain owner of a database, and
#	compares two tables by hand.

set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=test/lib/tap.sh
. test/lib/tap.sh
PG=$1

same_packages() { (cd "$1" && sha256sum ./*.deb) | (cd "$2" && sha256sum -c); }

# Nothing of the packages is built in the second chroot.
make_clean() {
	debootstrap --variant=minbase "$(. /etc/os-release && echo "$VERSION_CODENAME")" /clean \
		"$(awk '$1 == "deb" { print $2; exit }' /etc/apt/sources.list)" >/dev/null
	cp /usr/sbin/policy-rc.d /clean/usr/sbin/
	cp -P /usr/local/bin/systemd-tmpfiles /clean/usr/local/bin/
	cp /etc/apt/apt.conf.d/99matrix /clean/etc/apt/apt.conf.d/
	mkdir -p /clean/etc/postgresql-common
	cp -r /etc/postgresql-common/createcluster.d /clean/etc/postgresql-common/
	chmod 1777 /clean/dev/shm
	cp "$1"/*.deb /clean/var/tmp/
	chroot /clean apt-get -qq update
	chroot /clean sh -c "apt-get -qq -y --no-install-recommends install postgresql-$PG /var/tmp/iblt-common_*.deb \
		/var/tmp/postgresql-$PG-iblt_*.deb"
}

as_postgres() { chroot /clean su postgres -c "PATH=/usr/lib/postgresql/$PG/bin:\$PATH; cd /tmp; $1"; }

start() {
	as_postgres "initdb -D /tmp/data -U postgres -A trust >/dev/null &&
		pg_ctl -D /tmp/data -l /tmp/server.log -w -s -o \"-c listen_addresses= -k /tmp\" start &&
		createuser -h /tmp owner && createdb -h /tmp -O owner shop"
}

example() {
	as_postgres "psql -h /tmp -U owner -d shop -X -At -F ' ' -v ON_ERROR_STOP=1" <<-'SQL'
		CREATE EXTENSION iblt; CREATE EXTENSION kbf;
		CREATE TABLE accounts AS SELECT i AS id, 'owner ' || i AS owner, i * 10 AS balance FROM generate_series(1, 10000) i;
		CREATE TABLE accounts_b AS TABLE accounts;
		UPDATE accounts_b SET balance = balance + 1 WHERE id = 4711;
		DELETE FROM accounts_b WHERE id = 42;
		INSERT INTO accounts_b VALUES (10001, 'owner 10001', 0);
		SELECT iblt_agg(id, iblt_checksum(t.*)) AS a FROM accounts t \gset
		SELECT iblt_agg(id, iblt_checksum(t.*)) AS b FROM accounts_b t \gset
		SELECT key, side, count FROM iblt_decode(:'a'::iblt - :'b'::iblt) ORDER BY key;
	SQL
}

example_is_right() {
	example >/tmp/example
	printf '10001 right -1\n42 left 1\n4711 both 0\n' >/tmp/wanted
	grep -vE '^(CREATE|SELECT|UPDATE|DELETE|INSERT)' /tmp/example | diff /tmp/wanted -
}

links_lead_somewhere() {
	chroot /clean sh -c 'cd /usr/share/doc/iblt-common && grep -roE "\]\([^) #]+" --include=*.md . | while IFS=: read -r page link; do
		case $link in "](http"*) continue ;; esac
		[ -e "$(dirname "$page")/${link#??}" ] || echo "$page: $link"; done' >/tmp/links
	cat /tmp/links
	[ ! -s /tmp/links ]
}

address_is_written() {
	(cd /one/iblt && packaging/address.sh https://example.org/a/iblt a@example.org && perl -MJSON::PP -0ne 'decode_json($_)' META.json &&
		grep -lF '<a@example.org>' META.json SECURITY.md debian/control.in debian/copyright debian/changelog | wc -l | grep -qx 5 &&
		grep -lF https://example.org/a/iblt META.json debian/control.in debian/copyright debian/watch packaging/iblt.spec | wc -l | grep -qx 5)
}

# It starts a server of its own, as another user than root.
program_conducts() {
	as_postgres "createdb -h /tmp -O owner -T shop copy"
	chroot /clean iblt-audit --tsv from='host=/tmp dbname=shop user=owner' to='host=/tmp dbname=copy user=owner' \
		tables='{public.accounts}' | cut -f 1,3 | grep -x "public.accounts	equal"
}

# debian/tests, with the packages installed and nothing built.
package_tests() {
	apt-get -qq -y --no-install-recommends install /one/iblt/build/iblt-common_*.deb /one/iblt/build/postgresql-"$PG"-iblt_*.deb &&
		rm -rf /tested && mkdir /tested && cp -r debian test expected Makefile ./*.control sql src /tested/ && (cd /tested && debian/tests/installcheck)
}

# It has no server here, and says so.
program_runs() {
	local rc=0
	chroot /clean iblt-audit peer=nowhere schema=s >/dev/null 2>&1 || rc=$?
	[ $rc -eq 2 ]
}

rm -rf --one-file-system /one /two /clean
mkdir /one /two
cp -r . /one/iblt
cp -r . /two/another-name
apt-get -qq -y --no-install-recommends install debootstrap
passed "make deb builds packages that lintian accepts" make -s -C /one/iblt deb
passed "and once more in another directory" make -s -C /two/another-name deb
passed "both times the same to the byte" same_packages /one/iblt/build /two/another-name/build
for file in /one/iblt/build/*.deb; do
	echo "${file##*/}:"
	dpkg-deb -c "$file" | awk '$1 !~ /^d/ { print "    " $3, $6 }'
done
passed "they install where nothing is built" make_clean /one/iblt/build
passed "a server starts" start
passed "a plain owner creates the extension, and a comparison by hand gives its answer" example_is_right
passed "the links of the pages lead somewhere" links_lead_somewhere
passed "iblt-audit is in PATH" program_runs
passed "and audits two databases from a third one" program_conducts
passed "and has a manual page" test -s /clean/usr/share/man/man1/iblt-audit.1.gz
passed "the tests of the packages" package_tests
passed "a releaser's addresses go where they belong" address_is_written
as_postgres "pg_ctl -D /tmp/data -m fast -s stop" || true
done_counting
