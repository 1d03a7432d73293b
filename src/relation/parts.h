/* parts.h: what types are made of */
#ifndef IBLT_PARTS_H
#define IBLT_PARTS_H

#include "postgres.h"

#include "lib/stringinfo.h"

/* Appends what side_column in SQL has of a type, as fields of a JSON object. */
extern void iblt_append_type(StringInfo json, Oid type, int32 typmod);

#endif							/* IBLT_PARTS_H */
