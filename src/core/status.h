/*
 * status.h
 *		What can be wrong with a value, with two values, or with a row.
 */
#ifndef IBLT_CORE_STATUS_H
#define IBLT_CORE_STATUS_H

/* Each with one English clause, without a full stop. */
#define IBLT_STATUSES(status) \
	status(IBLT_OK, "nothing is wrong") \
	/* what the validator finds */ \
	status(IBLT_BAD_SIZE, "its size does not match its header") \
	status(IBLT_BAD_MAGIC, "it does not begin with the bytes of this type") \
	status(IBLT_BAD_VERSION, "its format version is not known to this version of iblt") \
	status(IBLT_BAD_RESERVED, "bits that must be zero are not") \
	status(IBLT_BAD_HASHES, "its number of hashes is out of range") \
	status(IBLT_BAD_SUBTABLES, "its set of subtables does not match its number of hashes") \
	status(IBLT_BAD_CELLS, "its number of cells is not a size that this type can have") \
	status(IBLT_BAD_KEY_KIND, "its kind of key is not known") \
	status(IBLT_BAD_KEY_SIZE, "its key size does not match its kind of key") \
	status(IBLT_BAD_DESCRIPTION, "its description of the key's type is not valid") \
	status(IBLT_BAD_VALUE_TYPE, "its type or size of values is not valid") \
	status(IBLT_BAD_TEMPLATE, "it has contents but no key type") \
	status(IBLT_BAD_FIELD, "a cell holds a number outside the field") \
	status(IBLT_BAD_CHECKSUM, "its checksum does not match its contents") \
	status(IBLT_BAD_STRATA, "its number of strata is not between 1 and 64") \
	status(IBLT_BAD_VALUES, "its values do not fit its codes") \
	status(IBLT_BAD_LABELS, "its labels are not valid") \
	status(IBLT_BAD_COUNTER, "its counters do not match its contents") \
	/* parameters that two sketches must share */ \
	status(IBLT_OTHER_HASHES, "numbers of hashes differ") \
	status(IBLT_OTHER_SUBTABLES, "sets of subtables differ") \
	status(IBLT_OTHER_STRATA, "numbers of strata differ") \
	status(IBLT_OTHER_CELLS, "numbers of cells differ") \
	status(IBLT_OTHER_SEED, "seeds differ") \
	status(IBLT_OTHER_VALUES, "only one keeps values") \
	status(IBLT_OTHER_VALUE_TYPE, "value types differ") \
	status(IBLT_OTHER_VALUE_SIZE, "value sizes differ") \
	status(IBLT_OTHER_KEY_TYPE, "key types differ") \
	status(IBLT_OTHER_KEY_SIZE, "key sizes differ") \
	status(IBLT_OTHER_CODES, "numbers of values or superposed values differ") \
	status(IBLT_OTHER_LABELS, "labels differ") \
	/* rows that a sketch cannot hold */ \
	status(IBLT_KEY_NOT_REPRESENTABLE, "the key cannot be represented with this seed") \
	status(IBLT_VALUE_NOT_REPRESENTABLE, "the value cannot be represented with this seed") \
	status(IBLT_VALUE_OUT_OF_RANGE, "the value is not one of the filter's values") \
	/* a sum that a sketch cannot hold */ \
	status(IBLT_COUNT_OVERFLOW, "a count is out of range") \
	/* what cannot be taken out of a key-value filter */ \
	status(IBLT_NOT_IN_FILTER, "the filter does not hold the key with this value") \
	status(IBLT_NOT_A_PART, "the filter does not hold all pairs of the other")

#define IBLT_STATUS_NAME(name, text)	name,

typedef enum IbltStatus
{
	IBLT_STATUSES(IBLT_STATUS_NAME)
	IBLT_STATUS_COUNT
} IbltStatus;

/* The clause for any status. */
extern const char *iblt_core_status_text(IbltStatus status);

#endif
