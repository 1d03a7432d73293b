/*
 * status.c
 *		What can be wrong, in words.
 */
#include "status.h"

#define STATUS_TEXT(name, text)	text,

const char *
iblt_core_status_text(IbltStatus status)
{
	static const char *const texts[] = {IBLT_STATUSES(STATUS_TEXT)};

	return (unsigned) status < IBLT_STATUS_COUNT ? texts[status] : "unknown status";
}
