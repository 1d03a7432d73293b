/*-------------------------------------------------------------------------
 *
 * slice.c
 *	  A few bytes of a stored value, without fetching all of it.
 *
 *-------------------------------------------------------------------------
 */
#include "sketch/slice.h"

#include "access/detoast.h"
#include "fmgr.h"

#include "codec/version.h"

/*
 * Values of at most this many bytes are fetched as a whole.  One scan over
 * eight chunks costs as much as slices of two or three.
 */
#define WHOLE_SIZE	16000

/* Does TOAST keep the value out of line, not compressed?  Sets its size. */
static bool
is_sliceable(struct varlena *value, size_t *size)
{
	struct varatt_external pointer;
	size_t		stored;

	if (!VARATT_IS_EXTERNAL_ONDISK(value))
		return false;
	VARATT_EXTERNAL_GET_POINTER(pointer, value);
	stored = VARATT_EXTERNAL_GET_EXTSIZE(pointer);
	*size = (size_t) pointer.va_rawsize - VARHDRSZ;
	return stored >= *size;		/* less is compressed */
}

void
iblt_slices_open(IbltSlices *slices, Datum value)
{
	struct varlena *whole;

	slices->value = value;
	slices->whole = NULL;
	if (is_sliceable((struct varlena *) DatumGetPointer(value),
					 &slices->size) && slices->size > WHOLE_SIZE)
		return;
	whole = PG_DETOAST_DATUM_PACKED(value);
	slices->size = VARSIZE_ANY_EXHDR(whole);
	slices->whole = (const uint8 *) VARDATA_ANY(whole);
}

const uint8 *
iblt_slices_get(const IbltSlices *slices, size_t from, size_t to)
{
	struct varlena *slice;

	if (from > to || to > slices->size)
		elog(ERROR, "slice from %zu to %zu of a value of %zu bytes",
			 from, to, slices->size);
	if (slices->whole != NULL)
		return slices->whole + from;
	slice = PG_DETOAST_DATUM_SLICE(slices->value, from, to - from);
	if (VARSIZE_ANY_EXHDR(slice) != to - from)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("stored value is shorter than its size")));
	return (const uint8 *) VARDATA_ANY(slice);
}

const uint8 *
iblt_slices_header(const IbltSlices *slices,
				   size_t (*header_size) (const uint8 *bytes), size_t *size)
{
	const uint8 *bytes;

	*size = slices->size;
	if (slices->whole != NULL)
		return slices->whole;
	/* less than WHOLE_SIZE */
	*size = IBLT_SLICE_FIRST;
	bytes = iblt_slices_get(slices, 0, *size);
	if (header_size(bytes) <= *size)
		return bytes;
	*size = Min(slices->size, header_size(bytes));
	return iblt_slices_get(slices, 0, *size);
}
