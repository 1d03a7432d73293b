/*
 * kbf_private.h
 *	  What kbf*.c share: values of type kbf, their parameters and their errors.
 */
#ifndef IBLT_KBF_KBF_PRIVATE_H
#define IBLT_KBF_KBF_PRIVATE_H

#include "sketch/iblt.h"

#include "core/kbf_cell.h"

/* A filter that does not determine the value of a key. */
#define ERRCODE_IBLT_UNKNOWN_VALUE	MAKE_SQLSTATE('I', 'B', '0', '0', '6')

/* Pairs that are to be taken out of a filter and are not in it. */
#define ERRCODE_IBLT_NOT_IN_FILTER	MAKE_SQLSTATE('I', 'B', '0', '0', '7')

/* The defaults of kbf_new. */
#define IBLT_KBF_DEFAULT_CAPACITY	100
#define IBLT_KBF_DEFAULT_VALUES		255
#define IBLT_KBF_DEFAULT_FAILURE	0.001
#define IBLT_KBF_DEFAULT_SUPERPOSED 3

/* kbf.c */

/* The type. */
extern const IbltValueType iblt_kbf_type;

/* ERROR for a change or sum that the core refuses.  IBLT_OK passes. */
extern void iblt_kbf_check_change(IbltStatus status);

/* ERROR, with a hint, for a key whose value the filter does not determine. */
extern void iblt_kbf_refuse_unknown(const char *hint);

/* ERROR for cells that no pairs make up. */
extern void iblt_kbf_refuse_contradiction(void);

/* The key, argument 1, and a value, argument n.  NULL is an ERROR. */
extern Datum iblt_kbf_key_arg(FunctionCallInfo fcinfo);
extern Datum iblt_kbf_value_arg(FunctionCallInfo fcinfo, int n);

/* Creates an empty value in CurrentMemoryContext, sealed. */
extern struct varlena *iblt_kbf_make_empty(const IbltKbfParams *params);

/*
 * Copies an open filter into CurrentMemoryContext, and opens a view of it.  The
 * labels and the type of key are those of params, which may be wider
 * (iblt_core_kbf_widen), and its cells may be a part as many.
 */
extern struct varlena *iblt_kbf_copy(IbltKbf *copy, const IbltKbf *kbf,
									 const IbltKbfParams *params);

/*
 * Makes the parameters of an untyped template.  values and labels must be set
 * in params.  Each argument is checked, with a hint.
 */
extern void iblt_kbf_params_make(IbltKbfParams *params, int capacity,
								 double failure, int superposed, uint64 seed);

/* ERROR for a capacity that no filter has. */
extern void iblt_kbf_refuse_capacity(int capacity);

/* ERROR for a probability out of range. */
extern void iblt_kbf_check_failure(double failure);

/* All parameters in one line, for messages. */
extern char *iblt_kbf_params_text(const IbltKbfParams *params);

/*
 * Keys at which at most the part `failure` of them is expected to be unknown,
 * and of other keys a hundredth of that to get a value.
 */
extern uint64 iblt_kbf_params_capacity(const IbltKbfParams *params,
									   double failure);

/*
 * Gives an untyped template the coder's type of key.  ERROR unless a typed one
 * has it already.  As iblt_key_set_params.
 */
extern void iblt_kbf_set_key(IbltKeyCoder *coder, IbltKbfParams *params);

/* ERROR, naming both, unless filters with these parameters can be added. */
extern void iblt_kbf_check_match(const IbltKbfParams *left,
								 const IbltKbfParams *right);

/* kbf_labels.c */

/*
 * Sets labels, and the number of values, to those of an array of text or of an
 * enum type, in CurrentMemoryContext.  ERROR if they cannot be labels.
 */
extern void iblt_kbf_labels_from_array(IbltKbfParams *params, Datum array);
extern void iblt_kbf_labels_from_enum(IbltKbfParams *params, Oid type);

/*
 * Appends those labels of an array that are not there yet, and has them in
 * CurrentMemoryContext.  ERROR without labels, and if there is no room.
 */
extern void iblt_kbf_labels_append(IbltKbfParams *params, Datum array);

/* Appends the labels that an enum type got at its end, if they are its first. */
extern void iblt_kbf_labels_follow(IbltKbfParams *params, Oid type);

/* The label of a value as text, or all of them as text[].  There must be any. */
extern Datum iblt_kbf_label_datum(const IbltKbfParams *params, unsigned value);
extern Datum iblt_kbf_labels_datum(const IbltKbfParams *params);

/* What values of an SQL type are to a filter. */
typedef enum IbltKbfValueKind
{
	IBLT_KBF_INTEGER,
	IBLT_KBF_TEXT,
	IBLT_KBF_ENUM
} IbltKbfValueKind;

/* ERROR if values of the type can be none of these.  The type is a base type. */
extern IbltKbfValueKind iblt_kbf_value_kind(Oid type);

/*
 * The value, 1 to params->values, that an SQL value of this base type stands
 * for.  ERROR if there is none.
 */
extern unsigned iblt_kbf_value(const IbltKbfParams *params, Oid type,
							   Datum value);

/* Is it known?  False also if the filter has no labels. */
extern bool iblt_kbf_has_value(const IbltKbfParams *params, Oid type,
							   Datum value);

/* ERROR for labels where a filter has none. */
extern void iblt_kbf_refuse_unlabelled(const IbltKbfParams *params);

#endif							/* IBLT_KBF_KBF_PRIVATE_H */
