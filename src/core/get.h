/*
 * get.h
 *		One key looked up: the GET of Goodrich & Mitzenmacher.
 *
 * A key is in one cell of each subtable, so looking it up takes k cells of a
 * sketch of any size.  They tell that the key is present if one of them holds
 * only its rows.  They tell that it is absent if one of them is empty, or holds
 * only another key.  If each of them holds several keys, they tell nothing.
 * get_size.h says how often that happens.
 */
#ifndef IBLT_CORE_GET_H
#define IBLT_CORE_GET_H

#include "cell.h"

/*
 * Judges from a key's own cells alone.  index and check are those that
 * iblt_core_key_cells gives, and cells points to the bytes of each, sealed.
 * The view may be one of iblt_core_open_header.  Fills entry, except its key,
 * if the key is present.  A contradiction is one between these cells.
 *
 * All else is trusted.  A count that is told may have wrapped if the sketch is
 * made of folds, and only if a key has more than 2^31 - 1 rows.
 */
extern IbltPresence iblt_core_judge(const IbltSketch *sketch,
									const uint8_t *key, uint64_t check,
									const uint32_t *index,
									const uint8_t *const *cells,
									IbltEntry *entry);

/*
 * The same from a whole sealed sketch.  A contradiction is also one that
 * iblt_core_sums (sums.h) finds.  If counts may have wrapped, the answer is
 * IBLT_UNKNOWN.
 */
extern IbltPresence iblt_core_get(const IbltSketch *sketch,
								  const uint8_t *key, IbltEntry *entry);

#endif
