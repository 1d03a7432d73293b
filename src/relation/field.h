/* field.h: arguments, and rows of the types of iblt in SQL */
#ifndef IBLT_RELATION_FIELD_H
#define IBLT_RELATION_FIELD_H

#include "postgres.h"

#include "fmgr.h"

/* A field of a row, or 0 for null. */
extern Datum iblt_field_of(Datum row, const char *name);

/* The same of a text, or "otherwise", of a bigint, and of a boolean. */
extern const char *iblt_text_field(Datum row, const char *name, const char *otherwise);
extern int64 iblt_bigint_field(Datum row, const char *name);
extern bool iblt_flag_field(Datum row, const char *name);

/* The rows of an array of a composite type, of which those that are null are 0; none for 0. */
extern Datum *iblt_rows_of(Datum array, int *n);

/* An array of rows, of a composite type. */
extern Datum iblt_array_of_rows(Datum *rows, int n, Oid type);

/* The type of the rows that a function returns an array of. */
extern Oid iblt_row_type(FunctionCallInfo fcinfo);

/* An argument that is a text, or "otherwise". */
extern const char *iblt_text_arg(FunctionCallInfo fcinfo, int n, const char *otherwise);

/* The texts of an argument that is an array, none for NULL. */
extern char **iblt_texts_of(FunctionCallInfo fcinfo, int arg, int *n);

#endif							/* IBLT_RELATION_FIELD_H */
