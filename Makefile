# The build of iblt, through PGXS.
#
# "make help" lists the targets.  "make demo" and "make test" install what is
# missing, so they must also work before PGXS is installed.  Its inclusion is
# guarded for that reason.

EXTENSION = iblt iblt_live iblt_audit kbf
EXTVERSION = 0.1.0
MODULE_big = iblt

# The directory of the sources, as PGXS finds it: "." unless make runs in another
# directory (make -f ../iblt/Makefile, or VPATH=../iblt).  There, make can build,
# install and run installcheck.  All other targets need the source directory.
SRC := $(patsubst %/,%,$(or $(VPATH),$(dir $(firstword $(MAKEFILE_LIST)))))
ifneq ($(realpath $(SRC)),$(realpath .))
OUT_OF_TREE = 1
endif
# The files of the source directory that match a pattern, without its name.
in_src = $(sort $(patsubst $(SRC)/%,%,$(wildcard $(addprefix $(SRC)/,$(1)))))

SRC_DIRS = src/core src/codec src/sketch src/kbf src/relation src/protocol src/digest src/peer src/compare src/run src/repair
CORE_SRCS = $(call in_src,src/core/*.c)
SRCS = $(call in_src,$(SRC_DIRS:%=%/*.c))
HDRS = $(wildcard $(SRC_DIRS:%=$(SRC)/%/*.h))
OBJS = $(patsubst %.c,%.o,$(SRCS))

DATA = $(call in_src,$(EXTENSION:%=sql/%--*--*.sql))
DATA_built = $(EXTENSION:%=sql/%--$(EXTVERSION).sql)
# The parts of each extension's script, in order.  The first one pins search_path.  (A script with the name of a file
# in test/sql would not do: pg_regress would run it.)
SQL_PARTS_kbf = kbf/kbf rights
SQL_PARTS_iblt = iblt \
	sketch/iblt sketch/strata sketch/salvage sketch/own \
	relation/types relation/common relation/describe relation/mapping relation/order relation/plan \
	relation/read relation/shards relation/slice relation/statements \
	protocol/protocol protocol/audit protocol/digest protocol/position protocol/repair_execute \
	protocol/repair_target \
	rights
SQL_PARTS_iblt_live = iblt_live same_schema \
	digest/stores digest/parts digest/live digest/start \
	rights
SQL_PARTS_iblt_audit = iblt_audit same_schema \
	peer/failure peer/peer peer/bare peer/ask peer/bare_guard peer/query \
	plain/describe plain/plan plain/statements \
	compare/types compare/attempt compare/compare compare/confirm compare/contradiction compare/damaged_index compare/describe \
	compare/digest compare/figures compare/finder compare/lookup compare/many compare/nodes \
	compare/plain compare/prepare compare/sketch compare/waiting \
	audit/types audit/audit audit/list audit/small audit/table \
	structure/kinds structure/structure structure/audit \
	run/stores run/types run/after run/begin run/bounds run/claim run/pause run/rows run/run \
	run/slice_guard run/small run/views run/work \
	repair/types repair/absent repair/apply repair/claim repair/commit repair/exchange repair/lock repair/long \
	repair/plan repair/referring repair/repair repair/run repair/sequences repair/statements \
	repair/steps repair/verify repair/winner \
	nodes/types nodes/audit nodes/compare nodes/drive nodes/repair \
	track/track \
	report/types report/baseline report/html report/metrics report/text report/accepted report/page \
	report/receipt report/report \
	rights
# Where assemble.awk finds the options of comparisons, and what iblt_compare has by default.
OPTION_PARTS = sql/relation/types.sql sql/compare/compare.sql
SCRIPTS = bin/iblt-audit
# The pages link to one another.  PGXS's DOCS would put all of them into one
# directory, which other extensions share.
DOC_TOP = README.md CONTRIBUTING.md CHANGELOG.md SECURITY.md LICENSE
DOC_ROOMS = . internals kbf applications
DOC_PAGES = $(call in_src,doc/*.md doc/*/*.md)
DOC_FIGURES = $(call in_src,doc/figures/*.svg doc/figures/*.png)
DOC_EXAMPLES = $(call in_src,doc/examples/*)
REGRESS = $(patsubst test/sql/%.sql,%,$(call in_src,test/sql/*.sql))
# Inputs are in test/sql; pg_regress finds the top-level expected/ through its
# output directory (up to 15) or its --expecteddir (from 16), both "." here.
REGRESS_OPTS = --inputdir=$(SRC)/test
TAP_TESTS = 1
# Naming tests of one kind leaves out the other kind.
ifneq ($(PROVE_TESTS),)
REGRESS =
else
PROVE_TESTS = test/t/*.pl
ifeq ($(origin REGRESS),command line)
TAP_TESTS := $(if $(REGRESS),,1)
endif
endif
EXTRA_CLEAN = $(if $(OUT_OF_TREE),,build) .deps results regression.diffs regression.out tmp_check log

PG_CONFIG ?= pg_config
PGXS := $(shell $(PG_CONFIG) --pgxs 2>/dev/null)

# WERROR=1 turns warnings into errors, as the tests do.
WERROR ?= 0
ifeq ($(WERROR),1)
WERROR_FLAG = -Werror
endif

# The server's headers are system headers here, so that -Wextra speaks of our
# own code alone.
PG_CPPFLAGS = -I$(SRC)/src -isystem $(shell $(PG_CONFIG) --includedir-server) -isystem $(shell $(PG_CONFIG) --includedir) $(XXHASH_FLAGS) $(SAME_FLAGS)
# Builds in two directories are the same to the byte: debug information does not name them.
SAME_FLAGS = -ffile-prefix-map=$(CURDIR)=.
PG_CFLAGS = -Wall -Wextra $(WERROR_FLAG) $(CLANG_FLAGS) $(C11_FLAG)
# Up to 15, the server's headers are not C23, which newer compilers take by default.
C11_FLAG = $(if $(filter 14 15,$(MAJORVERSION)),-std=gnu11)
# With -Og, gcc does not inline some functions that xxHash 0.8.1 says must be.
XXHASH_FLAGS = $(if $(filter -Og,$(CFLAGS)),-DXXH_NO_INLINE_HINTS=1)
# xxHash is compiled in; its header is all that is needed.  Calls within the
# library are bound to it, so that they do not go by way of a table.
SHLIB_LINK = -lm $(libpq) $(if $(filter linux,$(PORTNAME)),-Wl$(COMMA)-Bsymbolic-functions)
COMMA = ,
# PostgreSQL's own flags may be those of gcc, and clang does not know all of them.
CLANG_FLAGS = $(if $(findstring clang,$(shell $(CC) --version 2>/dev/null)),-Wno-unknown-warning-option -Wno-ignored-optimization-argument)

.DEFAULT_GOAL := all

ifneq ($(wildcard $(PGXS)),)
# A server that was built with LLVM may be met without its clang: do without
# the bitcode then, for it only serves JIT inlining.
BITCODE_CLANG := $(shell sed -n 's/^CLANG[ 	]*=[ 	]*//p' $(dir $(PGXS))../Makefile.global)
ifneq ($(BITCODE_CLANG),)
ifeq ($(shell command -v $(BITCODE_CLANG)),)
override with_llvm = no
endif
endif

include $(PGXS)

# PGXS would remove bin/iblt-audit below bindir.
uninstall: uninstall-scripts
uninstall-scripts:
	rm -f $(patsubst %,'$(DESTDIR)$(bindir)/%',$(notdir $(SCRIPTS)))
.PHONY: uninstall-scripts

ifneq ($(docdir),)
doc_target = $(DESTDIR)$(docdir)/$(docmoduledir)/$(MODULE_big)
install: install-docs
install-docs:
	$(MKDIR_P) '$(doc_target)/doc/figures' '$(doc_target)/doc/examples' $(DOC_ROOMS:%='$(doc_target)/doc/%')
	$(INSTALL_DATA) $(addprefix $(SRC)/,$(DOC_TOP)) '$(doc_target)/'
	for page in $(DOC_PAGES); do $(INSTALL_DATA) "$(SRC)/$$page" '$(doc_target)'/"$$page" || exit 1; done
	$(INSTALL_DATA) $(addprefix $(SRC)/,$(DOC_FIGURES)) '$(doc_target)/doc/figures/'
	$(INSTALL_SCRIPT) $(addprefix $(SRC)/,$(DOC_EXAMPLES)) '$(doc_target)/doc/examples/'
uninstall: uninstall-docs
uninstall-docs:
	rm -f $(patsubst %,'$(doc_target)/%',$(DOC_TOP) $(DOC_PAGES) $(DOC_FIGURES) $(DOC_EXAMPLES))
	rmdir $(patsubst %,'$(doc_target)%',/doc/figures /doc/examples /doc/internals /doc/kbf /doc/applications /doc /) 2>/dev/null || :
.PHONY: install-docs uninstall-docs
endif

# PostgreSQL may be configured without dependency tracking (Debian's is).
$(OBJS) $(OBJS:.o=.bc): $(HDRS)

# PROVE_FLAGS is left to the user.
PG_PROVE_FLAGS += -I test/t -j $(shell nproc 2>/dev/null || echo 1)

ifneq ($(TAP_TESTS),)
installcheck: not-as-root
not-as-root:
	@if [ "$$(id -u)" -eq 0 ]; then echo "The TAP tests start servers, which root must not do: run them as another user," \
		"or run the SQL tests alone with \"make installcheck TAP_TESTS=\"." >&2; exit 1; fi
.PHONY: not-as-root
endif

ifdef OUT_OF_TREE
# make would take what an earlier build left in the source directory for its own.
ifneq ($(call in_src,$(OBJS) $(OBJS:.o=.bc) $(MODULE_big)$(DLSUFFIX) $(DATA_built)),)
$(error $(SRC) has been built in: run "make clean" there first)
endif

# Full names, because make would find the directories in the source directory.
BUILD_DIRS = $(addprefix $(CURDIR)/,$(SRC_DIRS) sql)
$(BUILD_DIRS):
	mkdir -p $@
$(OBJS) $(OBJS:.o=.bc) $(DATA_built): | $(BUILD_DIRS)

# pg_regress looks for expected/ here, and psql for test/sql/common.psql.
installcheck: $(CURDIR)/expected $(CURDIR)/test
$(CURDIR)/expected $(CURDIR)/test:
	ln -s $(realpath $(SRC))/$(notdir $@) $@
clean: clean-out-of-tree
clean-out-of-tree:
	for link in expected test; do if test -L $$link; then rm $$link; fi; done
	rm -f $(OBJS) $(OBJS:.o=.bc) $(DATA_built)
	rmdir $(filter-out src,$(SRC_DIRS)) src sql 2>/dev/null || :
.PHONY: clean-out-of-tree
endif
else
all install installcheck uninstall:
	@echo "Cannot find PGXS ($(PG_CONFIG) --pgxs): install postgresql-server-dev-N" >&2
	@echo "or set PG_CONFIG. \"make demo\" and \"make test\" install it." >&2
	@exit 1

clean distclean:
	rm -rf $(OBJS) $(OBJS:.o=.bc) $(MODULE_big).so $(DATA_built) $(EXTRA_CLEAN)

.PHONY: all install installcheck uninstall clean distclean
endif

.DELETE_ON_ERROR:

# assemble.awk says what it writes into the parts.
define script_rule
sql/$(1)--$(EXTVERSION).sql: sql/assemble.awk sql/pinned_settings sql/take_failure sql/failed_driver \
		sql/user_trigger sql/replication sql/value_type sql/moving_aggregate $(OPTION_PARTS) $(SQL_PARTS_$(1):%=sql/%.sql)
	awk -f $$(wordlist 1,8,$$+) read_only=1 $$(wordlist 9,10,$$+) read_only=0 $$(wordlist 11,999,$$+) > $$@
endef
$(foreach extension,$(EXTENSION),$(eval $(call script_rule,$(extension))))

# --- unit tests of src/core, without a server -------------------------------

UNIT_CC ?= $(CC)
UNIT_TESTS = $(patsubst test/unit/%.c,%,$(sort $(wildcard test/unit/test_*.c)))
UNIT_HELPERS = $(filter-out test/unit/test_%.c test/unit/fuzz_%.c,$(sort $(wildcard test/unit/*.c)))
FUZZ_TESTS = $(patsubst test/unit/%.c,%,$(sort $(wildcard test/unit/fuzz_*.c)))

CORE_CFLAGS = -std=c99 -Wall -Wextra -Wmissing-prototypes $(WERROR_FLAG) -Isrc -Isrc/core
UNIT_CFLAGS = $(CORE_CFLAGS) -D_DEFAULT_SOURCE -Itest/unit
UNIT_LIBS = -lm
CFLAGS_plain = -O2
# -g1: lines in the stack traces of the sanitizers.  -g would take a fifth of the time to compile.
CFLAGS_sanitized = -g1 -O1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all
# The checks make the functions of the tests large, and inlining them takes longer than it saves.
TEST_CFLAGS_sanitized = -fno-inline

# The arithmetic of i386, where intermediate results have more precision than a
# double.  Only gcc has it on x86-64; other machines do without these tests.  It changes
# formulas and tables, so random tests have fewer rounds here.  The objects of files without
# such numbers are the plain ones.
CFLAGS_x87 = -O2 -mfpmath=387 -DMODEL_SCALE=20
SRCS_x87 := $(shell cd $(SRC) && grep -lwE 'double|float' $(CORE_SRCS))
X87_TESTS = $(if $(shell $(UNIT_CC) $(CFLAGS_x87) -fsyntax-only -x c /dev/null 2>/dev/null && echo yes),$(filter $(UNIT_TESTS),test_sizing test_meter test_estimate test_get test_kbf_size))

UNIT_PROGRAMS = $(foreach f,plain sanitized,$(addprefix build/$(f)/,$(UNIT_TESTS))) \
	$(addprefix build/x87/,$(X87_TESTS))

# One set of rules for each way of building.  The core does not get the feature
# macros of the tests.
define unit_rules
build/$(1)/src/core/%.o: src/core/%.c
	@mkdir -p $$(@D)
	$$(UNIT_CC) $$(CORE_CFLAGS) $$(CFLAGS_$(1)) -MMD -MP -c -o $$@ $$<

build/$(1)/test/unit/%.o: test/unit/%.c
	@mkdir -p $$(@D)
	$$(UNIT_CC) $$(UNIT_CFLAGS) $$(CFLAGS_$(1)) $$(TEST_CFLAGS_$(1)) -MMD -MP -c -o $$@ $$<

$$(addprefix build/$(1)/,$$(UNIT_TESTS)): build/$(1)/%: build/$(1)/test/unit/%.o \
		$$(patsubst %.c,build/$(1)/%.o,$$(UNIT_HELPERS) $$(or $$(SRCS_$(1)),$$(CORE_SRCS))) \
		$$(if $$(SRCS_$(1)),$$(patsubst %.c,build/plain/%.o,$$(filter-out $$(SRCS_$(1)),$$(CORE_SRCS))))
	$$(UNIT_CC) $$(CFLAGS_$(1)) -o $$@ $$^ $$(UNIT_LIBS)
endef
$(foreach f,plain sanitized x87,$(eval $(call unit_rules,$(f))))

-include $(wildcard build/*/src/core/*.d build/*/test/unit/*.d build/fuzz/obj/*/*/*.d)
.SECONDARY:

unit-programs: $(UNIT_PROGRAMS)

print-unit-programs:
	@echo $(UNIT_PROGRAMS)

unit: unit-programs
	@test/lib/unit.sh $(UNIT_PROGRAMS)

# --- fuzzing -----------------------------------------------------------------

FUZZ_CC ?= clang
FUZZ_SECONDS ?= 600
FUZZ_PROGRAMS = $(addprefix build/fuzz/,$(FUZZ_TESTS))

FUZZ_CFLAGS = $(UNIT_CFLAGS) -g1 -O1 -fno-omit-frame-pointer \
	-fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all -Wno-missing-prototypes

build/fuzz/obj/%.o: %.c
	@mkdir -p $(@D)
	$(FUZZ_CC) $(FUZZ_CFLAGS) -MMD -MP -c -o $@ $<

$(FUZZ_PROGRAMS): build/fuzz/%: build/fuzz/obj/test/unit/%.o $(patsubst %.c,build/fuzz/obj/%.o,$(CORE_SRCS) $(UNIT_HELPERS))
	$(FUZZ_CC) $(FUZZ_CFLAGS) -o $@ $^ $(UNIT_LIBS)

fuzz-programs: $(FUZZ_PROGRAMS)

print-fuzz-programs:
	@echo $(FUZZ_PROGRAMS)

fuzz: fuzz-programs
	@FUZZ_SECONDS=$(FUZZ_SECONDS) test/lib/harness.pl --exec test/lib/fuzz.sh $(FUZZ_PROGRAMS)

# --- the core's own benchmark ------------------------------------------------

CORE_OBJECTS = $(patsubst %.c,build/plain/%.o,$(CORE_SRCS))

build/core_bench: test/bench/core_bench.c $(CORE_OBJECTS)
	$(UNIT_CC) $(CORE_CFLAGS) -D_DEFAULT_SOURCE -O2 -o $@ $^ $(UNIT_LIBS)

# --- simulations: the table of sizes, and the published results ------------------

SIM_PROGRAMS = $(addprefix build/sim/,sizing sim_recovery sim_digest sim_meter sim_recheck)
SIM_PROGRAMS += $(addprefix build/sim/,sim_damaged sim_get sim_fifty)
SIM_DATA = build/sim/data
KBF_PROGRAMS = $(addprefix build/sim/,sim_kbf_codes sim_kbf_paper sim_kbf_flow sim_kbf_ours)
SIM_PROGRAMS += build/sim/kbf_sizing $(KBF_PROGRAMS)

$(SIM_PROGRAMS): build/sim/%: test/sim/%.c $(CORE_OBJECTS) $(wildcard test/sim/*.h test/unit/*.h)
	@mkdir -p $(@D)
	$(UNIT_CC) $(UNIT_CFLAGS) -O2 -o $@ $(filter %.c %.o,$^) $(UNIT_LIBS)

sim-programs: $(SIM_PROGRAMS)

print-sim-programs:
	@echo $(SIM_PROGRAMS)

# The long runs, and doc/figures.  Nothing else needs gnuplot.
sim: gnuplot-there sim-programs
	@mkdir -p $(SIM_DATA) doc/figures
	@rc=0; for p in $(filter-out %sizing,$(SIM_PROGRAMS)); do $$p --out $(SIM_DATA) || rc=1; done; exit $$rc
	gnuplot -e "from='$(SIM_DATA)'; to='doc/figures'" test/sim/plot.gp
	gnuplot -e "from='$(SIM_DATA)'; to='doc/figures'" test/sim/plot_kbf.gp

# The part of the key-value Bloom filter alone.
sim-kbf: gnuplot-there $(KBF_PROGRAMS)
	@mkdir -p $(SIM_DATA) doc/figures
	@rc=0; for p in $(KBF_PROGRAMS); do $$p --out $(SIM_DATA) || rc=1; done; exit $$rc
	gnuplot -e "from='$(SIM_DATA)'; to='doc/figures'" test/sim/plot_kbf.gp

# Ten minutes of simulation are not to end with a missing program.
gnuplot-there:
	@command -v gnuplot >/dev/null || { echo "Cannot find gnuplot, which draws the figures: install gnuplot-nox" >&2; exit 1; }

sizing-table: build/sim/sizing
	nice -n 19 build/sim/sizing > build/sizing_table.h
	mv build/sizing_table.h src/core/sizing_table.h

kbf-sizing-table: build/sim/kbf_sizing
	nice -n 19 build/sim/kbf_sizing > build/kbf_size_table.h
	mv build/kbf_size_table.h src/core/kbf_size_table.h

# --- whole runs, each in a temporary directory of its own --------------------

demo:
	@bash test/demo.sh

test:
	@bash test/run

mutants:
	@test/mutants/run

bench:
	@rc=0; for b in aggregate kbf compare nodes digest run repair; do bash test/bench/$$b.sh || rc=1; done; exit $$rc

# --- chores ------------------------------------------------------------------

# Debian packages for the releases of PostgreSQL whose server-dev packages are installed,
# and an RPM for that of PG_CONFIG, in build/.
deb rpm:
	@bash packaging/$@.sh

# Every release of PostgreSQL, i386 and emulated processors, in chroots (ROWS="17 19").
matrix:
	@bash test/matrix/run $(ROWS)

check-source:
	@bash test/lib/check-source.sh

dist:
	@grep -q '"resources"' META.json || echo "META.json has no resources: packaging/address.sh writes them" >&2
	@mkdir -p build
	git archive --format=zip --prefix=iblt-$(EXTVERSION)/ -o build/iblt-$(EXTVERSION).zip HEAD

help:
	@echo 'make              build the extension (PG_CONFIG chooses the server, WERROR=1)'
	@echo 'make install      install it for that server'
	@echo 'make installcheck test what is installed: the SQL tests on a running server (PGHOST, PGPORT),'
	@echo '                  the TAP tests with servers of their own; not as root'
	@echo '                  REGRESS="type agg": these SQL tests alone; TAP_TESTS=: all SQL tests alone'
	@echo '                  PROVE_TESTS=test/t/070_repair.pl: this TAP test alone; REGRESS=: all TAP tests alone'
	@echo '                  PROVE_FLAGS="-v -j 4": more options of prove'
	@echo 'make demo         show it on two servers with logical replication, install what is missing'
	@echo 'make test         run every test, install what is missing, leave nothing else behind'
	@echo '                  IBLT_TEST_SUITES="source build sql catalog unit sim fuzz tap": these suites alone'
	@echo 'make mutants      put faults into copies of the source one by one, to see that the tests notice'
	@echo 'make bench        measure against the speed bars (BENCH_ROWS, BENCH_STRICT=1)'
	@echo 'make unit         the tests of src/core alone, plain and sanitized (IBLT_TEST_SEED, UNIT_TESTS=test_peel)'
	@echo 'make fuzz         the fuzzers, each for FUZZ_SECONDS (600)'
	@echo 'make check-source the rules that the source keeps'
	@echo 'make sim          simulate the published results and plot ours beside theirs (gnuplot-nox)'
	@echo 'make sim-kbf      the same for the key-value Bloom filter alone'
	@echo 'make sizing-table compute src/core/sizing_table.h again (16 minutes)'
	@echo 'make kbf-sizing-table compute src/core/kbf_size_table.h again (4 minutes)'
	@echo 'make matrix       build and test on the releases of PostgreSQL in chroots, as root (ROWS="17 19")'
	@echo 'make deb, rpm     packages, in build/'
	@echo 'make dist         a zip archive of HEAD for PGXN, in build/'
	@echo 'make clean        remove what was built'

.PHONY: sim sim-kbf gnuplot-there sim-programs print-sim-programs sizing-table kbf-sizing-table unit unit-programs print-unit-programs fuzz fuzz-programs print-fuzz-programs demo test mutants bench check-source matrix deb rpm dist help
