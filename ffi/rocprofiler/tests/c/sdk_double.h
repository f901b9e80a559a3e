/* Controls of the test double; see sdk_double.c. */
#pragma once
#include "sdk_abi.h"

/* Loads the tool and runs its configure and initialize, as the SDK would, with that version and priority. What the tool
 * returned from configure; null when it declined. */
configure_result_t *double_load(const char *tool_path, uint32_t version, uint32_t priority);
/* Runs the tool's finalizer, holding the SDK's mutex. */
void double_finalize(void);
/* The finalization status that queries answer. */
void double_set_finalized(int status);
/* A callback to every active context that has the kind. `slots`: one user_data for each context, at least 8. */
void double_fire(uint32_t kind, int32_t operation, uint32_t phase, uint64_t thread, uint64_t internal, uint64_t ancestor, void *payload, uint64_t *slots);
/* The callback of the first active context with that kind, and its number. */
callback_t double_callback(uint32_t kind, int *context);
/* An id is retired: into the buffer, if its context is active. */
void double_retire(uint64_t id);
/* Calls of SDK functions so far, flushes of them. */
uint64_t double_calls(void);
uint64_t double_flushes(void);
/* Contexts that are active. */
int double_active(void);
