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

logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

run_taps "$logs" run_sanitized : "$@"
tap_finish
