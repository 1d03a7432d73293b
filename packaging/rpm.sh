#!/usr/bin/env bash
# rpm.sh
#	Builds an RPM of the working tree into build/, for the server of PG_CONFIG.

set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=test/lib/common.sh
. test/lib/common.sh
if ! command -v rpmbuild >/dev/null; then
	apt_update_once
	as_root apt-get -qq -y --no-install-recommends install rpm
fi
choose_server
version=$(sed -n 's/^EXTVERSION = //p' Makefile)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/SOURCES"
tar -czf "$work/SOURCES/iblt-$version.tar.gz" --exclude=./.git --exclude=./build --exclude='*.o' --exclude='*.bc' \
	--exclude='*.so' --transform "s|^\.|iblt-$version|" .
# (what it needs has other names here)
rpmbuild -bb --nodeps --quiet --define "_topdir $work" --define "pg_config $PG_CONFIG" packaging/iblt.spec
mkdir -p build
find "$work/RPMS" -name '*.rpm' -exec cp {} build/ \;
ls -l build/*.rpm
