// A worker's place in a job: connections to all servers, its clock, its tables. The library's main header.
//
//   auto session = verbena::Session::connect({.servers = {"shm:hello/server-0"}});
//   auto weights = (*session)->table<float>(
//       {.name = "weights", .rows = 1 << 20, .width = 100, .consistency = verbena::Essp{.staleness = 2}});
//   weights->pull(keys, values);          // see <verbena/table.hpp>
//   weights->push(keys, gradients);
//   (*session)->clock();                  // this worker has finished a clock
//
// Thread safety: a session and everything made from it (tables, pending operations, data cursors) belong to
// one thread: the thread that has connected the session. A process may hold many sessions; each is a worker.
// A call from another thread does nothing and returns FAILED_PRECONDITION with both threads' names;
// Session::take_over() hands a session over to the calling thread. Only functions that return a constant
// (rank(), workers(), Table::rows(), Table::width()) may be called from any thread. A child process that
// fork() makes owns none of its parent's sessions: its calls fail in the same way, and ~Session() does
// nothing there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include <verbena/allocation.hpp>
#include <verbena/consistency.hpp>
#include <verbena/keys.hpp>
#include <verbena/network.hpp>
#include <verbena/value_type.hpp>

namespace verbena {

namespace cluster {
class ConfigurationSource;
}  // namespace cluster
namespace transport {
class Transport;
}  // namespace transport

/// Where a pull finds a row.
enum class ReadPath : std::uint8_t {
  kAuto,     ///< kInPlace where the server's memory is mapped (one host), else kCached
  kInPlace,  ///< the row itself, in the server's memory
  kCached,   ///< this worker's row cache; under ESSP the server keeps it fresh by eager pushes
};

struct SessionOptions {
  // --- behaviour
  /// Addresses, in the order of server ranks: "shm:NAME" on this host, "verbs:HOST:PORT" between hosts.
  std::vector<std::string> servers;
  std::uint32_t rank = 0;  ///< this worker, 0 ≤ rank < workers
  std::uint32_t workers = 1;
  /// The rank of this worker's own server, which is on its host: rows of dynamic tables that the worker
  /// localizes go there. nullopt: the worker's rank modulo the number of servers.
  std::optional<std::uint32_t> node = std::nullopt;
  ReadPath read_path = ReadPath::kAuto;
  /// What happens to this session when a server dies. False: the session fails. True, if all tables are
  /// dynamic and the server is not this worker's own: operations on rows that lay on the dead server fail,
  /// unless its rows come back from images on another one (ServerOptions::backup_every_ms), and all other
  /// operations go on; some wait until each worker has used its session once. A worker whose
  /// own server is gone counts as dead, too. A server to which one worker loses its connection counts as dead
  /// for all. For jobs with servers that outlive workers (ServerOptions::outlives_workers).
  bool outlives_servers = false;
  /// How many processes have been this worker before. More than 0: the last one has died, and this session
  /// takes its place in a job that goes on meanwhile (ServerOptions::replaces_workers): see
  /// Session::is_catching_up(). Each process has another number than those before it.
  std::uint32_t incarnation = 0;
  /// Bound on every wait for a server's answer. A dead peer is noticed much sooner. from_environment() makes
  /// it longer, in a job on several hosts with copies of servers: by the time that the run may be without a
  /// leader.
  std::uint32_t timeout_ms = 30'000;
  /// Bound on every wait for other workers, that is, on how long one clock of the slowest may take.
  std::uint32_t clock_timeout_ms = 3'600'000;
  /// If a server's process shows no sign of life for this long while this worker waits (it is stopped, or its
  /// host hangs), the session fails with the server's name. At least 2000; 0: never. A shorter time notices
  /// this sooner. A longer time survives longer pauses of a host, for example while a virtual machine is
  /// migrated. The worker's own process raises its heartbeat in a thread that does nothing else, so that the
  /// worker may compute for as long as it likes. Over tcp and verbs it is also how long the worker tries to
  /// connect again to a server whose connection has broken; with 0, 5 s.
  std::uint32_t silence_timeout_ms = 5000;
  NetworkOptions network = {};
  /// Called about ten times a second in the session's thread while a call waits, for programs that have to
  /// look at something meanwhile: the signals of an interpreter in which they run, for example. If it returns
  /// an error, the call that waits ends with it, and so does the session. It must not use the session.
  /// nullptr: nobody is asked. connect() asks once it has reached the servers.
  std::function<absl::Status()> on_wait = nullptr;
  /// A checkpoint to go on from: the path of its folder, "…/ckpt-20" (docs/checkpoints.md). Tables are opened
  /// with the rows that they had, also on another number of servers, and the first clock is the
  /// checkpoint's. The same for all workers. Empty: the job begins with empty tables, at clock 0.
  std::string resume = {};
  /// For this project's own tests and tools: the transport to use instead of `network`. Only the session
  /// drives it. nullptr: the transport that the servers' addresses name.
  std::shared_ptr<transport::Transport> transport = nullptr;
  /// For this project's own programs: where to learn which copies each server has. Then `servers` only says
  /// how many servers there are. nullptr: each has one, and its death ends the session.
  std::shared_ptr<cluster::ConfigurationSource> configuration = nullptr;
  // --- performance
  /// Size of the ring for this worker's updates on each server. With a larger ring, large batches wait less
  /// for room. A server on this host reads large updates where they lie, in messages of up to an eighth of
  /// it.
  std::size_t inbox_bytes = std::size_t{8} << 20;
  /// Ring per server for eager pushes to this worker.
  std::size_t push_ring_bytes = std::size_t{8} << 20;
  /// Rows of sparse tables that lie on another host can be *gathered*: the server puts those of a pull that
  /// are not at hand into one message for each lane, instead of this worker reading each by itself. A network
  /// carries many narrow rows at once for less, but it takes the server's processor some tens of nanoseconds
  /// for each. This is done for rows of at most gather_row_bytes, if at least gather_keys of the keys of a
  /// pull are left from the first one on that is not at hand. 0 bytes: never. nullopt: if it takes less time
  /// here, which each table's first pulls measure for their number of keys, and later ones measure again,
  /// ever more rarely.
  std::optional<std::size_t> gather_row_bytes = std::nullopt;
  std::size_t gather_keys = 64;
  /// How much of a clock's updates may be sent to each server before the clock ends, in megabytes (10⁶ bytes)
  /// per second, the most important rows first: managed communication, for models that do not hold updates
  /// back. Rows that get many updates within a clock are sent more than once. 0: everything is sent at the
  /// end of the clock.
  double update_budget_mb_per_s = 0;
};

/// Describes a table. All workers must describe it alike; the first one creates it.
struct TableOptions {
  std::string name;
  /// kSparse: any 64-bit key but kNoKey, of features by their hash, for example. A key that nobody has pushed
  /// to reads as `initial` says, and takes no memory. Not with kDynamic.
  KeySpace key_space = KeySpace::kDense;
  std::uint64_t rows = 0;   ///< of a dense table: keys are 0 … rows − 1
  std::uint32_t width = 0;  ///< values per row
  ConsistencyModel consistency = Ssp{};
  /// kDynamic: rows move to the node of a worker that localizes them (Table::localize()), where its workers
  /// read and change them in place. With Sequential or Asp only; each server has memory for all rows.
  Allocation allocation = Allocation::kStatic;
  /// What a push does to a row: "add", a step along a gradient such as "adagrad(rate=0.1)", or a rule that
  /// every process of the job has registered (<verbena/update_rule.hpp> has all of them and their formulas).
  std::string rule = "add";
  /// For sparse tables: about how many rows there will be. Memory is taken in pieces of a fitting size; any
  /// number is right.
  std::uint64_t expected_rows = 0;
  /// For sparse tables: what a row holds before the first push to it, a function of `seed` and its key:
  /// "zero", "constant(value=1)", "uniform(low=-0.01,high=0.01)" or "normal(mean=0,deviation=0.01)".
  std::string initial = "zero";
  std::uint64_t seed = 0;
  /// For sparse tables: with which push a key gets its row: "always" (the first), "count(least=10)" (the
  /// tenth; what a worker pushes to a key in a clock is one), "probability(p=0.1)" (any, with that
  /// probability). Pushes before it are dropped. docs/sparse.md
  std::string admission = "always";
  /// For sparse tables: when a row is taken away again, so that its key reads as its initial values: "never",
  /// "age(clocks=1000)" (nobody has pushed to it for so many clocks), "count(least=1,half_life=1000)" (fewer
  /// pushes, where one counts half after so many clocks), "norm(least=0.001,clocks=100)" (smaller values, and
  /// nobody has pushed to it for so many clocks), "lru(most_mb=1000)" (the longest without a push, when
  /// memory is short). "most_mb" goes with each of these: how much memory the table may take, in millions of
  /// bytes. docs/sparse.md
  std::string eviction = "never";
  /// For static tables under models whose updates travel at the end of a clock: which of a clock's updates
  /// are kept back, and are added to those of the next clock: "none", "significant(least=1)" (those smaller
  /// than 1), "top(share=0.1)" (all but the largest tenth), "random(share=0.5)"; or what their values lose
  /// when they are rounded: "bf16", "int8"; or both: "significant(least=1)+int8". This worker sees what it
  /// keeps back, as it sees its own updates; a barrier and the session's end send all. What the model
  /// promises of updates, it promises of those that were sent. docs/consistency.md#filters
  std::string filter = "none";
  /// For static tables: in which bytes updates travel, without a change to any of them: "auto", "records"
  /// (a key and all values for each row), or "packed" (in as few bytes as is easily done, which takes this
  /// worker some time); "packed(lists=1000000)" for mini-batches whose keys come again and again, in the same
  /// order: they are sent once, as far as they are not more than so many for a lane; "packed(zstd=1)" to
  /// compress what is packed, at a level of 1 to 19, for slow networks. docs/sparse.md#pushes
  std::string encoding = "auto";
  /// How many rows the cache may hold; a further row replaces one that has not been read for a long time.
  std::uint64_t cache_rows = UINT64_MAX;
};

/// How stale reads were: counts by clock differential (newest clock surely included − reader's clock; BSP is
/// always −1).
struct StalenessHistogram {
  /// [i]: rows read with differential −1 − i; the last element counts all beyond that, too.
  std::vector<std::uint64_t> reads_by_lag;
  [[nodiscard]] double mean_clock_differential() const;
  void merge(const StalenessHistogram& other);
};

/// How long things took, in buckets of a quarter of a power of two: a quantile is at most a quarter too high.
struct DurationHistogram {
  std::vector<std::uint64_t> counts;
  void add(double seconds);
  void merge(const DurationHistogram& other);
  /// nullopt if nothing was added.
  [[nodiscard]] std::optional<double> quantile_seconds(double quantile) const;
};

struct SessionStatistics {
  /// Time blocked in any call: for other workers, for a server's answer, at a full ring, at connect().
  double waited_seconds = 0;
  std::uint64_t rows_pulled = 0;
  /// Of these, rows of sparse tables that their servers gathered (SessionOptions::gather_row_bytes).
  std::uint64_t rows_gathered = 0;
  std::uint64_t rows_pushed = 0;
  std::uint64_t rows_eagerly_received = 0;
  std::uint64_t rows_shipped = 0;    ///< updates of rows of static tables that were sent to servers
  std::uint64_t rows_kept_back = 0;  ///< by filters, each counted in each clock in which it was
  std::uint64_t update_bytes = 0;    ///< of the messages that these updates were sent in
  /// What this worker took to choose, round and pack updates, where a table has a filter or an encoding.
  double filter_seconds = 0;
  std::uint64_t rows_shipped_ahead = 0;  ///< updates sent before their clock ended (update_budget_mb_per_s)
  /// VAP: how often, and how long in all, a push or a clock waited for its updates to be seen.
  std::uint64_t value_bound_waits = 0;
  double value_bound_waited_seconds = 0;
  StalenessHistogram staleness;  ///< over all static tables
  /// For dynamic tables. Locally means in place, on this worker's node.
  std::uint64_t rows_pulled_locally = 0;
  std::uint64_t rows_pulled_remotely = 0;
  std::uint64_t rows_pushed_locally = 0;
  std::uint64_t rows_pushed_remotely = 0;
  std::uint64_t rows_localized = 0;  ///< moved here by this worker's localize()
  /// Of these and those that intents have moved: from images, since their nodes are gone
  /// (ServerOptions::backup_every_ms). Each may lack updates of the last milliseconds before.
  std::uint64_t rows_restored = 0;
  /// For each localize() and each intent for which rows had to come here: the time until the last row had
  /// come.
  DurationHistogram move_times;
  /// Rows that were neither where this worker believed them nor on their way here.
  std::uint64_t locations_asked = 0;
  /// Because of intents: rows that came here; rows that got a replica in this worker's memory; how often a
  /// replica was read again from its owner; and rows that were pulled from and pushed to replicas. Updates
  /// that replicas send to owners count as pushed, too.
  std::uint64_t rows_moved_by_intent = 0;
  std::uint64_t rows_replicated = 0;
  std::uint64_t rows_refreshed = 0;
  std::uint64_t rows_pulled_from_replicas = 0;
  std::uint64_t rows_pushed_to_replicas = 0;
  /// What this worker has asked its transport to do: requests, the bytes of their payload, and how often it
  /// rang a doorbell for some of them. What is read and written in memory that it maps is not counted.
  std::uint64_t requests_posted = 0;
  std::uint64_t bytes_posted = 0;
  std::uint64_t doorbells_rung = 0;
};

/// Where and how Session::checkpoint() saves. The same for all workers.
struct CheckpointOptions {
  /// Checkpoints are made in it, as folders "ckpt-CLOCK". All hosts of the job see the same folder under this
  /// path. It is made if it is missing.
  std::string folder;
  /// How many whole checkpoints stay there, this one and the newest before it; at least 1. Those that they
  /// need stay, too, and those of later clocks, which are another run's.
  std::uint64_t keep = 2;
  /// The one that this session goes on from stays besides: for processes that take the places of workers
  /// (SessionOptions::incarnation), which begin with it, too.
  bool keep_resumed = false;
  /// So many checkpoints, one after the other, hold only the rows that have changed since the one before,
  /// with which they are read; then comes one with all rows again. It saves bytes where few rows change from
  /// one to the next. Servers then keep 8 bytes for every 64 bytes of a table's rows; of a sparse table, or
  /// one whose rows move, 20 to 40 for each row. 0: all checkpoints hold all rows.
  std::uint32_t increments = 0;
  /// What is to be known when the run is resumed, by name: read_checkpoint() returns it.
  std::map<std::string, std::string> notes = {};
};

/// What a worker says at the end of an iteration.
struct IterationReport {
  std::int64_t iteration = 0;  ///< from 1; 0: a model that was loaded and is not trained
  double items = 0;            ///< examples actually processed
  double seconds = 0;          ///< training time of this iteration, evaluation excluded
  /// Values by name. They are added up over all workers and then shown; so, for a mean, each worker must
  /// divide its part by the number of all examples. Empty if the iteration was not evaluated.
  std::map<std::string, double> sums;
};

/// What a checkpoint says of itself.
struct CheckpointSummary {
  std::int64_t clock = 0;
  std::string path;     ///< of its folder, for SessionOptions::resume
  std::string written;  ///< when, in UTC: 2026-11-25T09:30:00Z
  std::uint32_t workers = 0;
  std::uint32_t servers = 0;
  std::map<std::string, std::string> notes;  ///< CheckpointOptions::notes
};
/// The newest whole checkpoint in `folder`, all of whose bytes are read and compared with their checksums.
/// `damaged`, if given, gets a line for each newer one that is not whole. NOT_FOUND: there is no checkpoint.
/// DATA_LOSS: all are damaged; the message names them.
absl::StatusOr<CheckpointSummary> newest_checkpoint(const std::string& folder,
                                                    std::vector<std::string>* damaged = nullptr);
/// That of the folder "…/ckpt-20"; its data files are not read.
absl::StatusOr<CheckpointSummary> read_checkpoint(const std::string& path);

template <class Value>
class Table;
class UntypedTable;

namespace worker {
class SessionCore;
class Surroundings;
class TableCore;
}  // namespace worker

class Session {
 public:
  /// Connects to all servers, waiting for them to appear for at most timeout_ms.
  /// INVALID_ARGUMENT for impossible options, DEADLINE_EXCEEDED or UNAVAILABLE with the server's name.
  static absl::StatusOr<std::unique_ptr<Session>> connect(const SessionOptions& options);
  /// Joins the job that this process was started for; `options` say the rest. The first case that applies
  /// counts:
  ///
  /// 1. `verbena run -- PROGRAM` has started it: the process is one of the job's workers.
  /// 2. VERBENA_SERVERS is set, to the servers' addresses by rank, separated by commas. VERBENA_RANK and
  ///    VERBENA_WORKERS name the worker (unset: worker 0 of 1). VERBENA_SECRET_FILE or VERBENA_NO_SECRET=1
  ///    says who may connect, VERBENA_TLS=1 that what travels is encrypted, here and in all other cases.
  /// 3. mpirun or srun --mpi=pmix has started it: each process is a worker. The first process on each host
  ///    also runs a server, in threads of its own.
  /// 4. RANK and WORLD_SIZE, MASTER_ADDR and MASTER_PORT are set, as torchrun does it: the same. The
  /// processes
  ///    meet at rank 0's host, at the port after MASTER_PORT; `options.network`, or VERBENA_SECRET_FILE or
  ///    VERBENA_NO_SECRET=1, says who may. VERBENA_RENDEZVOUS, as --rendezvous of `verbena run`, says another
  ///    place, rank 0's address or one in etcd, and comes before 3.
  /// 5. None of these: the only worker of a job, with a server in threads of this process.
  ///
  /// Call it once in a process, before other threads read the environment, and within a minute of the job's
  /// other processes. A server in this process ends when all workers have left, and ~Session() waits for
  /// that: destroy the session before you call exit(). If mpirun itself dies (3), or another process of the
  /// job does (4), this process gets SIGTERM; after 10 more seconds (4) SIGKILL.
  ///
  /// Errors: those of connect(). FAILED_PRECONDITION: the process has called it before, or cannot take its
  /// place in the job. INVALID_ARGUMENT: wrong variables, or several processes that cannot find each other
  /// were started; the message says what to do. CANCELLED: another process of the job cannot take part.
  static absl::StatusOr<std::unique_ptr<Session>> from_environment(SessionOptions options = {});

  /// Says goodbye to the servers; from then on nobody waits for this worker. Waits for a server in this
  /// process (from_environment()). To leave because of a failure, call give_up(). May run in any thread once
  /// the session's own thread has finished using it.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Creates or opens a table; collective: every worker of the job opens the same tables in the same order.
  /// Value: float, double, int32_t, int64_t. Returns a handle, which may be copied freely; the table lives as
  /// long as the session. If this session has opened a table of this name before, the handle is of the same
  /// table, and no other worker needs to call; if Value or the options differ, the call returns
  /// INVALID_ARGUMENT, which says what differs, and changes nothing.
  template <class Value>
  absl::StatusOr<Table<Value>> table(const TableOptions& options);  // in <verbena/table.hpp>
  absl::StatusOr<UntypedTable> untyped_table(const TableOptions& options, ValueType type);

  /// Ends this worker's clock: sends its updates and starts the next clock; waits only if the model says so.
  /// <verbena/data_cursor.hpp> explains how a clock relates to a pass over the data. If all tables are
  /// dynamic, it tells nobody, so that each mini-batch may be a clock.
  absl::Status clock();

  /// clock(), then waits until every worker has reached the same clock. Whatever the model, reads after it
  /// see all updates from before it (under SSP and ESSP perhaps also newer updates of workers that have gone
  /// on; a second barrier prevents that). Collective: all workers call it at the same clock.
  absl::Status barrier();

  /// barrier(), and saves all rows of all tables as they are at it, with what their rules keep, and `state`
  /// of each worker: what this worker alone knows, such as its place in its data. It returns when all of that
  /// has been copied; the copies are written while training goes on. They take as much memory as the tables,
  /// which servers keep for the next checkpoint. If the checkpoint before is not written yet, the call waits
  /// for it first.
  ///
  /// Collective, as barrier(): all workers call it at the same clock. The checkpoint's clock is
  /// current_clock() when it has returned. A process that dies while a checkpoint is written leaves the ones
  /// before whole. If a worker's place is taken by another process (SessionOptions::incarnation) before its
  /// part is written, that checkpoint is not, and the next one is; the new process calls this as often as the
  /// others, and has no part in what it calls while is_catching_up().
  ///
  /// Errors are the session's, as of barrier(). A checkpoint that cannot be written is no such error:
  /// training goes on, worker 0 logs why, and finish_checkpoint() returns it. INVALID_ARGUMENT: the options,
  /// a table's name that cannot be shown as it is, or rows are held (Table::hold()); nothing has happened.
  absl::Status checkpoint(const CheckpointOptions& options, std::vector<std::byte> state);
  /// Waits until the last checkpoint is written, as far as it is this worker's to write; worker 0 waits for
  /// all of it. Returns why the last one was not written, OK if it was or there was none. UNAVAILABLE: this
  /// session was catching up, and does not know. ~Session() waits, too.
  absl::Status finish_checkpoint();
  /// What this worker gave to checkpoint() as `state` when the checkpoint was written that
  /// SessionOptions::resume names. nullopt: the session does not go on from one. NOT_FOUND: it has none of a
  /// worker of this rank. DATA_LOSS: it is damaged.
  absl::StatusOr<std::optional<std::vector<std::byte>>> resumed_state();

  /// From now on clock() returns only when all workers have finished the clocks below current_clock() −
  /// `clocks`: so no worker is more than `clocks` ahead of the slowest one (a worker that has left holds
  /// nobody back). What the others have pushed to Sequential tables in those clocks is then applied; what
  /// they have pushed to other tables may not be. Meant for workers that take turns with rows: where all of
  /// them share memory with server 0, they see one another's clocks there, and wait without a message.
  /// Otherwise it opens a table of its own, with a name that begins with "verbena.".
  ///
  /// Collective; calls barrier(), so it ends a clock. All workers say the same number; if it is called again,
  /// the smallest one holds. In a job that outlives dead processes (docs/allocation.md): the end of server 0
  /// ends the session, and where workers do not share memory with it, so does every death.
  absl::Status limit_lead(std::uint32_t clocks);

  /// Tells all other workers that this one cannot go on: their calls return ABORTED with its name and `why`.
  /// Operations that are under way end, and bring no rows any more: the memory for them may be gone.
  /// FAILED_PRECONDITION: nothing was done, because the session belongs to another thread.
  absl::Status give_up(const absl::Status& why);

  /// This worker ends here, and another process takes its place (SessionOptions::incarnation), which begins
  /// with the current clock: nothing is done again, and nothing is lost. Returns when the servers have all
  /// that this worker has said; nothing can be done with the session then. Meanwhile, and until the other
  /// process is there, this is as a worker that is slow. To be called when no operation is under way.
  ///
  /// For jobs whose servers wait for those that take workers' places (ServerOptions::replaces_workers); in
  /// others it is as give_up(). Errors are the session's: then the other process may have to do the last
  /// clock again.
  absl::Status step_aside();

  /// Reports an iteration to the program that has started this process, if it listens: `verbena run` adds up
  /// the reports of all workers for one iteration, shows them, and writes them with --metrics and --report.
  /// Each worker reports the same iterations, in their order.
  void report(const IterationReport& iteration);

  /// Does what can be done now, and never waits: takes what has come, and goes on with operations under way.
  /// For programs that wait for a Pending in a loop of their own, which then look at Pending::done(). Returns
  /// the session's error, if it has one.
  absl::Status poll();

  /// From now on the session belongs to the calling thread. REQUIRES: the previous thread has finished using
  /// it, and this thread knows that through something that orders memory: a join, a mutex, a queue.
  void take_over();

  /// How many clocks this worker has finished.
  [[nodiscard]] std::int64_t current_clock() const;
  /// This session takes the place of a worker that has died (SessionOptions::incarnation), and that one had
  /// finished the current clock. The program does what every worker does: opens the same tables, and calls
  /// clock() and barrier() as often, which do not wait for anybody then. What it pushes is dropped, since it
  /// was pushed before; what it pulls is what the rows hold now. So it may leave out what it would compute,
  /// until this is false: then it is where the dead worker was, and goes on. It may change only in clock(),
  /// barrier(), and calls that open a table. Always false if `incarnation` is 0.
  ///
  /// What of the clock in which the worker died had come to servers counts, but not under models that hold
  /// updates back (bsp, a-bsp), unless a server had heard that the clock was finished: to that one nothing is
  /// pushed again. Calls of functions that change rows cannot be done again: they return
  /// FAILED_PRECONDITION as long as a server has more than this worker has done.
  [[nodiscard]] bool is_catching_up() const;
  [[nodiscard]] std::uint32_t rank() const;
  [[nodiscard]] std::uint32_t workers() const;
  [[nodiscard]] std::uint32_t servers() const;
  [[nodiscard]] SessionStatistics statistics() const;

 private:
  friend class DataCursor;
  explicit Session(std::unique_ptr<worker::SessionCore> core);
  std::unique_ptr<worker::Surroundings> surroundings_;  ///< destroyed after core_; nullptr: none
  std::unique_ptr<worker::SessionCore> core_;
};

}  // namespace verbena
