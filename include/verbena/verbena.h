/* Verbena for C, and for languages that bind to C: sessions, tables and servers. <verbena/session.hpp>,
 * <verbena/table.hpp> and <verbena/server.hpp> say what each call promises; samples, statistics,
 * and rules and functions of a program's own exist only there. docs/library.md has a whole program.
 *
 *   const char* servers[] = {"shm:hello/server-0"};
 *   verbena_session_options options = VERBENA_SESSION_OPTIONS;
 *   options.servers = servers;
 *   options.server_count = 1;
 *   verbena_session* session;
 *   if (verbena_connect(&options, &session) != VERBENA_OK) fprintf(stderr, "%s\n", verbena_last_error());
 *
 * Each call that can fail returns a code; verbena_last_error() says why in words. Nothing throws.
 *
 * Ownership: an object that a call returns through its last argument belongs to the caller, who must end it
 * with the call that is named there. Tables and operations belong to their session and must not be used after
 * it. Strings and arrays are copied, unless a comment says that they must live on. Pointers must not be NULL,
 * unless a comment allows it.
 *
 * Thread safety: a session and everything made from it belong to the thread that has connected it.
 *
 * Options grow at their end: start from the VERBENA_… initializer of the header that you compile with. */
#ifndef VERBENA_VERBENA_H
#define VERBENA_VERBENA_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The codes of absl::StatusCode and gRPC. */
typedef enum verbena_code {
  VERBENA_OK = 0,
  VERBENA_CANCELLED = 1,
  VERBENA_UNKNOWN = 2,
  VERBENA_INVALID_ARGUMENT = 3,
  VERBENA_DEADLINE_EXCEEDED = 4,
  VERBENA_NOT_FOUND = 5,
  VERBENA_ALREADY_EXISTS = 6,
  VERBENA_PERMISSION_DENIED = 7,
  VERBENA_RESOURCE_EXHAUSTED = 8,
  VERBENA_FAILED_PRECONDITION = 9,
  VERBENA_ABORTED = 10,
  VERBENA_OUT_OF_RANGE = 11,
  VERBENA_UNIMPLEMENTED = 12,
  VERBENA_INTERNAL = 13,
  VERBENA_UNAVAILABLE = 14,
  VERBENA_DATA_LOSS = 15
} verbena_code;

/* The message of the last call in this thread that has failed, valid until the next one that fails. Never
 * NULL. */
const char* verbena_last_error(void);
/* "MAJOR.MINOR.PATCH" */
const char* verbena_version(void);

/* ---- networks */

/* NetworkOptions of <verbena/network.hpp>. */
typedef struct verbena_network {
  size_t struct_bytes;     /* of this struct, in the header that the caller was compiled with */
  const char* secret_file; /* NULL: none */
  int no_secret;
  const char* device; /* NULL: the first that can be used */
  uint32_t device_port;
  int shares_cores;
  int tls;
} verbena_network;
#define VERBENA_NETWORK \
  { sizeof(verbena_network), NULL, 0, NULL, 0, 0, 0 }

/* ---- servers */

typedef struct verbena_server verbena_server;

typedef struct verbena_server_options {
  size_t struct_bytes;
  const char* address;
  uint32_t rank;
  uint32_t servers;
  uint32_t workers;
  uint32_t threads;
  int outlives_workers;
  const verbena_network* network; /* NULL: VERBENA_NETWORK */
} verbena_server_options;
#define VERBENA_SERVER_OPTIONS \
  { sizeof(verbena_server_options), NULL, 0, 1, 1, 1, 0, NULL }

/* Starts a server in a thread of its own. verbena_wait_for_server() says how it ended, also if it could not
 * begin; every server must be ended with that call. */
verbena_code verbena_start_server(const verbena_server_options* options, verbena_server** server);
/* Makes the server end in a moment, with CANCELLED. May be called from any thread and from a signal handler,
 * but not after verbena_wait_for_server() has returned. */
void verbena_stop_server(verbena_server* server);
/* Waits until all workers have left (VERBENA_OK), the job has failed (returns why) or the server was stopped.
 * `server` must not be used afterwards. */
verbena_code verbena_wait_for_server(verbena_server* server);

/* ---- sessions */

typedef struct verbena_session verbena_session;

typedef struct verbena_session_options {
  size_t struct_bytes;        /* of this struct, in the header that the caller was compiled with */
  const char* const* servers; /* addresses, by rank */
  size_t server_count;
  uint32_t rank; /* this worker, below `workers` */
  uint32_t workers;
  uint32_t timeout_ms;            /* bound on every wait for a server */
  uint32_t clock_timeout_ms;      /* bound on every wait for other workers */
  const verbena_network* network; /* NULL: VERBENA_NETWORK */
} verbena_session_options;
#define VERBENA_SESSION_OPTIONS \
  { sizeof(verbena_session_options), NULL, 0, 0, 1, 30000, 3600000, NULL }

/* Session::from_environment(): joins the job that this process was started for. Servers, rank and workers
 * come from there and not from `options`, which may be NULL. End with verbena_close(). */
verbena_code verbena_join(const verbena_session_options* options, verbena_session** session);
/* End with verbena_close(). */
verbena_code verbena_connect(const verbena_session_options* options, verbena_session** session);
/* Says goodbye to the servers. NULL: does nothing. */
void verbena_close(verbena_session* session);
verbena_code verbena_clock(verbena_session* session);
verbena_code verbena_barrier(verbena_session* session);
/* From now on verbena_clock() lets no worker be more than `clocks` clocks ahead of the slowest one. All
 * workers call it together, with the same number; it is a barrier, and so ends a clock. See
 * Session::limit_lead(). */
verbena_code verbena_limit_lead(verbena_session* session, uint32_t clocks);
/* Tells all others that this worker cannot go on, and why. */
verbena_code verbena_give_up(verbena_session* session, const char* why);
/* Session::report(): call it at the end of an iteration; iterations count from 1. `sums`: `sum_count` values,
 * which are added up over all workers and shown under their names. */
verbena_code verbena_report(verbena_session* session, int64_t iteration, double items, double seconds,
                            const char* const* names, const double* sums, size_t sum_count);
uint32_t verbena_rank(const verbena_session* session);
uint32_t verbena_workers(const verbena_session* session);
uint32_t verbena_servers(const verbena_session* session);
int64_t verbena_current_clock(const verbena_session* session);
/* From now on the session belongs to the calling thread. The previous thread must have finished using it. */
void verbena_take_over(verbena_session* session);

/* ---- tables */

typedef enum verbena_type {
  VERBENA_FLOAT = 1,
  VERBENA_DOUBLE = 2,
  VERBENA_INT32 = 3,
  VERBENA_INT64 = 4
} verbena_type;

typedef struct verbena_table_options {
  size_t struct_bytes;
  const char* name;
  uint64_t rows;
  uint32_t width;          /* values per row */
  uint32_t type;           /* a verbena_type */
  const char* consistency; /* as on the command line: "bsp", "essp:2", "asp" */
  int dynamic;             /* not 0: rows move to where they are used */
  const char* rule;        /* what a push does: "add", "adagrad(rate=0.1)", … (<verbena/update_rule.hpp>) */
  uint64_t cache_rows;
  /* Not 0: keys are any numbers but UINT64_MAX, and `rows` is 0. The rest is for such tables: about how many
   * rows there will be, and what a row holds before the first push to it, "zero" or "normal(deviation=0.01)"
   * (TableOptions in <verbena/session.hpp>), a function of `seed` and its key. */
  int sparse;
  uint64_t expected_rows;
  const char* initial;
  uint64_t seed;
  const char* admission; /* with which push a key gets its row: "always", "count(least=10)" */
  const char* filter;    /* of any static table: what is kept back, "none", "significant(least=1)" */
  const char* encoding;  /* of any static table: in which bytes updates travel, "auto", "packed" */
  const char* eviction;  /* of a sparse table: when a row is taken away again, "never", "age(clocks=1000)" */
} verbena_table_options;
#define VERBENA_TABLE_OPTIONS                                                                               \
  {                                                                                                         \
    sizeof(verbena_table_options), NULL, 0, 1, VERBENA_FLOAT, "ssp", 0, "add", UINT64_MAX, 0, 0, "zero", 0, \
        "always", "none", "auto", "never"                                                                   \
  }

typedef struct verbena_table verbena_table;

/* Collective. The same name gives the same table. It ends with its session. */
verbena_code verbena_open(verbena_session* session, const verbena_table_options* options,
                          verbena_table** table);
uint64_t verbena_rows(const verbena_table* table);
uint32_t verbena_width(const verbena_table* table);

/* Keys of one call: a list or, if `list` is NULL, the range first … first + count − 1. */
typedef struct verbena_keys {
  const uint64_t* list;
  uint64_t first;
  size_t count;
} verbena_keys;

/* `values`, `updates`: [count, width] of the table's type; `bytes`: how many bytes they have. */
verbena_code verbena_pull(const verbena_table* table, verbena_keys keys, void* values, size_t bytes);
verbena_code verbena_push(const verbena_table* table, verbena_keys keys, const void* updates, size_t bytes);

/* What a server function says: arrays that live until verbena_end_result(). */
typedef struct verbena_result {
  const uint64_t* keys;
  size_t key_count;
  const double* numbers;
  size_t number_count;
} verbena_result;
/* Table::call(): the servers do something with rows of a static table where they lie: "norms",
 * "top(count=100)", … (<verbena/server_function.hpp>). `keys`: a list, or a range; { NULL, 0, SIZE_MAX } are
 * all. Functions that change rows are not for tables under "bsp" and "a-bsp", where rows change
 * when the clock ends. `numbers`: equally many for each key of a list, for functions that want some; may be
 * NULL if `number_count` is 0. End the result with verbena_end_result(). */
verbena_code verbena_call(const verbena_table* table, const char* function, verbena_keys keys,
                          const double* numbers, size_t number_count, verbena_result** result);
void verbena_end_result(verbena_result* result);

/* 1: the row lies on this node, and verbena_hold() takes it if no other worker holds it.
 * REQUIRES: key < verbena_rows(). */
int verbena_is_here(const verbena_table* table, uint64_t key);
typedef struct verbena_held verbena_held;
/* For dynamic tables: takes rows that lie on this node, so that the caller can change them in place. `rows`
 * has as many elements as there are keys. rows[i]: the values of the i-th key, or NULL if the row is
 * elsewhere, is held by someone else, or has updates of this worker in progress. Never waits. Until
 * verbena_release(), which ends it, push none of these rows, and make no call that waits. */
verbena_code verbena_hold(const verbena_table* table, verbena_keys keys, void** rows, verbena_held** held);
verbena_code verbena_release(verbena_held* held);

/* An operation in progress. If the call that begins it is wrong, verbena_wait() says so. End with
 * verbena_wait() or verbena_forget(). */
typedef struct verbena_pending verbena_pending;
/* `keys` are copied; `values` must live until the operation has ended. */
verbena_code verbena_pull_async(const verbena_table* table, verbena_keys keys, void* values, size_t bytes,
                                verbena_pending** pending);
/* For dynamic tables: moves the rows here. */
verbena_code verbena_localize(const verbena_table* table, verbena_keys keys, verbena_pending** pending);
/* For dynamic tables: this worker will use the rows in its clocks from … to − 1. */
verbena_code verbena_intent(const verbena_table* table, verbena_keys keys, int64_t from, int64_t to);
int verbena_is_done(const verbena_pending* pending);
/* Waits until the operation has ended, and returns how. `pending` must not be used afterwards. */
verbena_code verbena_wait(verbena_pending* pending);
/* Gives up the handle; the operation itself goes on. */
void verbena_forget(verbena_pending* pending);

#ifdef __cplusplus
}
#endif

#endif
