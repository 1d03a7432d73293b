/*
 * test_field_portable.c
 *		test_field.c once more, as a compiler without 128-bit integers sees it.
 */
#undef __SIZEOF_INT128__

#include "test_field.c"
