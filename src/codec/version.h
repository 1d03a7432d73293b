/*
 * version.h
 *	  What differs between the releases of PostgreSQL, from 14 to 19.
 *
 * Each comment says which release changed what.  Names of PostgreSQL are those
 * of the newest release.  Callers include the headers that a macro needs.
 *
 * relation/describe.c asks for the release itself, because a whole function
 * is another one there.
 */
#ifndef IBLT_CODEC_VERSION_H
#define IBLT_CODEC_VERSION_H

#include "postgres.h"

#if PG_VERSION_NUM < 140000
#error "iblt needs PostgreSQL 14 or later"
#endif

#if PG_VERSION_NUM >= 150000

/* 15: commits are told apart from other delays of a checkpoint */
#define iblt_delaying_checkpoints(number)	GetVirtualXIDsDelayingChkpt(number, DELAY_CHKPT_START)
#define iblt_still_delay(vxids, number) \
	HaveVirtualXIDsDelayingChkpt(vxids, number, DELAY_CHKPT_START)

/* 15: the end of the record that a standby replays.  Before, of all that it has received. */
#include "access/xlogrecovery.h"
#define iblt_replay_position()	GetCurrentReplayRecPtr(NULL)

#else

#define iblt_delaying_checkpoints(number)	GetVirtualXIDsDelayingChkpt(number)
#define iblt_still_delay(vxids, number)		HaveVirtualXIDsDelayingChkpt(vxids, number)
#define iblt_replay_position() \
	Max(GetXLogReplayRecPtr(NULL), GetWalRcvFlushRecPtr(NULL, NULL))

#endif

#if PG_VERSION_NUM >= 160000

/* 16: no longer in postgres.h */
#include "varatt.h"

/* 16: one function for the rights on objects of all catalogs */
#define iblt_function_aclcheck(function) \
	object_aclcheck(ProcedureRelationId, function, GetUserId(), ACL_EXECUTE)
#define iblt_server_aclcheck(server) \
	object_aclcheck(ForeignServerRelationId, server, GetUserId(), ACL_USAGE)
#define iblt_owns_relation(relid)	object_ownercheck(RelationRelationId, relid, GetUserId())

/* 16: the file of a relation has another name */
#define iblt_file_number(relation)	((relation)->rd_locator.relNumber)

/* 16: also returns which indexes need the new version, but our stores have none */
#define iblt_heap_update(store, old, tuple) \
	simple_heap_update(store, old, tuple, &(TU_UpdateIndexes) {0})

/* 16: takes a context for soft errors */
#define iblt_make_range(...)	make_range(__VA_ARGS__, NULL)

/* 16: a Var tells whether an outer join can replace it by NULL */
#define iblt_var_is_nulled(var) (!bms_is_empty((var)->varnullingrels))

/* 16: JSON_OBJECT and others are new */
#define iblt_is_json_constructor(node)	IsA(node, JsonConstructorExpr)

/* 16: the hook that checks rights gets them as an argument of their own */
#define IBLT_PERMS_HOOK_PARAMS	List *range_table, List *rights, bool raise
#define IBLT_PERMS_HOOK_ARGS	range_table, rights, raise

#else

#define iblt_function_aclcheck(function)	pg_proc_aclcheck(function, GetUserId(), ACL_EXECUTE)
#define iblt_server_aclcheck(server)	pg_foreign_server_aclcheck(server, GetUserId(), ACL_USAGE)
#define iblt_owns_relation(relid)	pg_class_ownercheck(relid, GetUserId())
#define iblt_file_number(relation)	((relation)->rd_node.relNode)
#define iblt_heap_update(store, old, tuple) simple_heap_update(store, old, tuple)
#define iblt_make_range(...)	make_range(__VA_ARGS__)
#define iblt_var_is_nulled(var) false
#define iblt_is_json_constructor(node)	false
#define IBLT_PERMS_HOOK_PARAMS	List *range_table, bool raise
#define IBLT_PERMS_HOOK_ARGS	range_table, raise

/* 16: soft errors are new */
#define ereturn(context, result, ...)	ereport(ERROR, __VA_ARGS__)

#endif

/* 16: a client may delegate its GSSAPI credentials.  Its own header needs those of GSSAPI. */
#if PG_VERSION_NUM >= 160000 && defined(ENABLE_GSS)
struct Port;
extern bool be_gssapi_get_delegation(struct Port *port);
#define iblt_gss_is_delegated()	(MyProcPort != NULL && be_gssapi_get_delegation(MyProcPort))
#else
#define iblt_gss_is_delegated()	false
#endif

#if PG_VERSION_NUM >= 170000
/* 17: belongs to a resource owner, no longer to a memory context */
#define iblt_wait_event_set(n)	CreateWaitEventSet(CurrentResourceOwner, n)

/* 17: JSON_VALUE and others are new */
#define iblt_is_json_query(node)	IsA(node, JsonExpr)
#define iblt_json_query_args(node) \
	list_make2(((JsonExpr *) (node))->formatted_expr, ((JsonExpr *) (node))->path_spec)
#else
#define iblt_wait_event_set(n)	CreateWaitEventSet(CurrentMemoryContext, n)
#define iblt_is_json_query(node)	false
#define iblt_json_query_args(node)	NIL
#endif

/* 18: a Var in RETURNING tells whether it is of OLD or NEW */
#if PG_VERSION_NUM >= 180000
#define iblt_var_is_returned(var)	((var)->varreturningtype != VAR_RETURNING_DEFAULT)
#else
#define iblt_var_is_returned(var)	false

/* 18: virtual generated columns are new */
#define ATTRIBUTE_GENERATED_VIRTUAL 'v'

/* 18: another name, because orders are no longer those of btree alone */
#define get_op_index_interpretation(operator)	get_op_btree_interpretation(operator)

/* 18: an attribute with another name */
#define pg_noreturn pg_attribute_noreturn()
#endif

#if PG_VERSION_NUM >= 190000

/* 19: the constructor of jsonb keeps its result itself */
#define iblt_push_jsonb(state, token, value)	pushJsonbValue(state, token, value)

/* 19: a hook for relations of all kinds, no longer get_relation_info_hook for tables */
#define IBLT_PLAN_HOOK_PARAMS	PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte
#define IBLT_PLAN_HOOK_ARGS		root, rel, rte

#else

typedef struct JsonbInState
{
	struct JsonbParseState *parse;
	struct JsonbValue *result;
} JsonbInState;
#define iblt_push_jsonb(state, token, value) \
	((state)->result = pushJsonbValue(&(state)->parse, token, value))

#define build_simple_rel_hook	get_relation_info_hook
#define build_simple_rel_hook_type	get_relation_info_hook_type
#define IBLT_PLAN_HOOK_PARAMS	PlannerInfo *root, Oid relid, bool is_parent, RelOptInfo *rel
#define IBLT_PLAN_HOOK_ARGS		root, relid, is_parent, rel

#endif

#endif							/* IBLT_CODEC_VERSION_H */
