#!/usr/bin/env bash
# address.sh URL MAIL
#	Writes the public address of the repository, and that of the people who maintain it,
#	into the files that name them.  Call it before the first release (CONTRIBUTING.md), and
#	again when an address changes.  Until then, META.json has no resources.

set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -eq 2 ] && [[ $1 =~ ^https://[^[:space:]\&\|]+[^/]$ && $2 =~ ^[^[:space:]\&\|]+@[^[:space:]\&\|]+$ ]] ||
	{ echo "usage: packaging/address.sh https://HOST/OWNER/iblt NAME@HOST" >&2; exit 2; }
url=${1%.git}
mail=$2

sed -i -e '/^   "resources": /d' -e "s|^      \"the iblt authors.*|      \"the iblt authors <$mail>\"|" \
	-e "/^   \"license\":/a\\   \"resources\": {\"homepage\": \"$url\", \"bugtracker\": {\"web\": \"$url/issues\"}, \"repository\": {\"url\": \"$url.git\", \"web\": \"$url\", \"type\": \"git\"}}," META.json
sed -i "s/^Write to .* in private[^.]*\./Write to <$mail> in private./" SECURITY.md
sed -i -e '/^\(Homepage\|Vcs-Git\|Vcs-Browser\):/d' -e "s|^Maintainer:.*|&\nHomepage: $url\nVcs-Git: $url.git\nVcs-Browser: $url|" debian/control.in debian/control
sed -i "s/^\(Maintainer: .*\|  *-- .*\)<[^>]*>/\1<$mail>/" debian/control.in debian/control debian/changelog
sed -i -e '/^\(Upstream-Contact\|Source\):/d' -e "/^Upstream-Name:/a\\Upstream-Contact: the iblt authors <$mail>\nSource: $url" debian/copyright
sed -i "s|^URL:.*|URL:            $url|" packaging/iblt.spec
printf 'version=4\nopts=mode=git %s.git refs/tags/v([0-9.]+)\n' "$url" >debian/watch
