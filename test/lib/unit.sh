#!/usr/bin/env bash
# unit.sh PROGRAM ...
#	Run the unit test programs and count their tests.

set -euo pipefail

# shellcheck source=test/lib/common.sh
. "$(dirname "$0")/common.sh"
# shellcheck source=test/lib/tap.sh
. "$(dirname "$0")/tap.sh"
# shellcheck source=test/lib/sanitizer.sh
. "$(dirname "$0")/sanitizer.sh"

log=$(mktemp)
trap 'rm -f "$log"' EXIT

for program in "$@"; do
	run_tap "$(program_label "$program")" "$log" run_sanitized "$program" || true
done
tap_finish
