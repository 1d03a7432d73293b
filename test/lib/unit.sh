#!/usr/bin/env bash
# unit.sh [OPTION ...] PROGRAM ...
#	Run the unit test programs, also those with sanitizers.  The options are those
#	of harness.pl.

set -euo pipefail

here=$(dirname "$0")
# shellcheck source=test/lib/sanitizer.sh
. "$here/sanitizer.sh"

exec perl "$here/harness.pl" --exec "$SANITIZER_COMMAND" "$@"
