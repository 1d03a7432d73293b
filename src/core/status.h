/*
 * status.h
 *		What can be wrong with a value, with two values, or with a row.
 */
#ifndef IBLT_CORE_STATUS_H
#define IBLT_CORE_STATUS_H

typedef enum IbltStatus
{
	IBLT_OK = 0,
	/* what the validator finds */
	IBLT_BAD_SIZE,
	IBLT_BAD_MAGIC,
	IBLT_BAD_VERSION,
	IBLT_BAD_RESERVED,
	IBLT_BAD_HASHES,
	IBLT_BAD_SUBTABLES,
	IBLT_BAD_CELLS,
	IBLT_BAD_KEY_KIND,
	IBLT_BAD_KEY_SIZE,
	IBLT_BAD_DESCRIPTION,
	IBLT_BAD_VALUE_TYPE,
	IBLT_BAD_TEMPLATE,
	IBLT_BAD_FIELD,
	IBLT_BAD_CHECKSUM,
	IBLT_BAD_STRATA,
	IBLT_BAD_VALUES,
	IBLT_BAD_LABELS,
	IBLT_BAD_COUNTER,
	/* parameters that two sketches must share */
	IBLT_OTHER_HASHES,
	IBLT_OTHER_SUBTABLES,
	IBLT_OTHER_STRATA,
	IBLT_OTHER_CELLS,
	IBLT_OTHER_SEED,
	IBLT_OTHER_VALUES,
	IBLT_OTHER_VALUE_TYPE,
	IBLT_OTHER_VALUE_SIZE,
	IBLT_OTHER_KEY_TYPE,
	IBLT_OTHER_KEY_SIZE,
	IBLT_OTHER_CODES,
	IBLT_OTHER_LABELS,
	/* rows that a sketch cannot hold */
	IBLT_KEY_NOT_REPRESENTABLE,
	IBLT_VALUE_NOT_REPRESENTABLE,
	IBLT_VALUE_OUT_OF_RANGE,
	/* a sum that a sketch cannot hold */
	IBLT_COUNT_OVERFLOW,
	/* what cannot be taken out of a key-value filter */
	IBLT_NOT_IN_FILTER,
	IBLT_NOT_A_PART
} IbltStatus;

/* One English clause for any status, without a full stop. */
extern const char *iblt_core_status_text(IbltStatus status);

#endif
