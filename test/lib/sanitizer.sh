# sanitizer.sh
#	Running programs that were built with sanitizers: as $SANITIZER_COMMAND PROGRAM.

# shellcheck shell=bash

# Leaks are not looked for: src/core takes no memory, and the leak checker needs
# ptrace, which containers may forbid.
export ASAN_OPTIONS=detect_leaks=0:abort_on_error=0
export UBSAN_OPTIONS=print_stacktrace=1

# The run-time libraries up to LLVM 16 crash at random where the kernel spreads
# addresses widely (vm.mmap_rnd_bits = 32), so switch that off if we may.
# shellcheck disable=SC2034 # for those who source this file
if setarch -R true 2>/dev/null; then
	SANITIZER_COMMAND="setarch -R"
else
	SANITIZER_COMMAND="env"
fi
