#!/usr/bin/env bash
# deb.sh
#	Builds the Debian packages into build/, in a copy, for each release of PostgreSQL
#	whose server-dev package is installed.  Installs what is missing.  lintian looks at
#	them, and it is an error if it finds an error or a warning.

set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=test/lib/common.sh
. test/lib/common.sh
missing=()
for package in debhelper dpkg-dev fakeroot lintian libxxhash-dev make gcc postgresql-server-dev-all; do
	is_installed "$package" || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
	apt_update_once
	as_root apt-get -qq -y --no-install-recommends install "${missing[@]}"
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tree=$work/iblt-$(sed -n 's/^EXTVERSION = //p' Makefile)
mkdir "$tree"
tar -cf - --exclude=./.git --exclude=./build --exclude='*.o' --exclude='*.bc' --exclude='*.so' . | tar -C "$tree" -xf - --no-same-owner
(
	cd "$tree"
	pg_buildext updatecontrol
	# The tests run on the installed packages (test/matrix/package.sh, debian/tests).
	DEB_BUILD_OPTIONS="nocheck ${DEB_BUILD_OPTIONS-}" dpkg-buildpackage -b -us -uc -d -Pnocheck
)
# (an address and the number of a request are those of the person who uploads)
lintian --profile debian --fail-on error,warning \
	--suppress-tags bogus-mail-host,bogus-mail-host-in-debian-changelog,initial-upload-closes-no-bugs "$work"/*.changes
mkdir -p build
cp "$work"/*.deb "$work"/*.changes "$work"/*.buildinfo build/
ls -l build/*.deb
