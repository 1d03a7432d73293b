/*
 * status.c
 *		What can be wrong, in words.
 */
#include "status.h"

#include <stddef.h>

static const char *const status_text[] = {
	[IBLT_OK] = "nothing is wrong",
	[IBLT_BAD_SIZE] = "its size does not match its header",
	[IBLT_BAD_MAGIC] = "it does not begin with the bytes of this type",
	[IBLT_BAD_VERSION] = "its format version is not known to this version of iblt",
	[IBLT_BAD_RESERVED] = "bits that must be zero are not",
	[IBLT_BAD_HASHES] = "its number of hashes is out of range",
	[IBLT_BAD_SUBTABLES] = "its set of subtables does not match its number of hashes",
	[IBLT_BAD_CELLS] = "its number of cells is not a size that this type can have",
	[IBLT_BAD_KEY_KIND] = "its kind of key is not known",
	[IBLT_BAD_KEY_SIZE] = "its key size does not match its kind of key",
	[IBLT_BAD_DESCRIPTION] = "its description of the key's type is not valid",
	[IBLT_BAD_VALUE_TYPE] = "its type or size of values is not valid",
	[IBLT_BAD_TEMPLATE] = "it has contents but no key type",
	[IBLT_BAD_FIELD] = "a cell holds a number outside the field",
	[IBLT_BAD_CHECKSUM] = "its checksum does not match its contents",
	[IBLT_BAD_STRATA] = "its number of strata is not between 1 and 64",
	[IBLT_BAD_VALUES] = "its values do not fit its codes",
	[IBLT_BAD_LABELS] = "its labels are not valid",
	[IBLT_BAD_COUNTER] = "its counters do not match its contents",
	[IBLT_OTHER_HASHES] = "numbers of hashes differ",
	[IBLT_OTHER_SUBTABLES] = "sets of subtables differ",
	[IBLT_OTHER_STRATA] = "numbers of strata differ",
	[IBLT_OTHER_CELLS] = "numbers of cells differ",
	[IBLT_OTHER_SEED] = "seeds differ",
	[IBLT_OTHER_VALUES] = "only one keeps values",
	[IBLT_OTHER_VALUE_TYPE] = "value types differ",
	[IBLT_OTHER_VALUE_SIZE] = "value sizes differ",
	[IBLT_OTHER_KEY_TYPE] = "key types differ",
	[IBLT_OTHER_KEY_SIZE] = "key sizes differ",
	[IBLT_OTHER_CODES] = "numbers of values or superposed values differ",
	[IBLT_OTHER_LABELS] = "labels differ",
	[IBLT_KEY_NOT_REPRESENTABLE] = "the key cannot be represented with this seed",
	[IBLT_VALUE_NOT_REPRESENTABLE] = "the value cannot be represented with this seed",
	[IBLT_VALUE_OUT_OF_RANGE] = "the value is not one of the filter's values",
	[IBLT_COUNT_OVERFLOW] = "a count is out of range",
	[IBLT_NOT_IN_FILTER] = "the filter does not hold the key with this value",
	[IBLT_NOT_A_PART] = "the filter does not hold all pairs of the other"
};

const char *
iblt_core_status_text(IbltStatus status)
{
	if ((size_t) status >= sizeof status_text / sizeof *status_text)
		return "unknown status";
	return status_text[status];
}
