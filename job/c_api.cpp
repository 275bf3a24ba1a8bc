// Implements <verbena/verbena.h>: each call is one of the C++ interface. No exception may leave a call.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/signals_blocked.hpp"
#include <verbena/server.hpp>
#include <verbena/session.hpp>
#include <verbena/table.hpp>
#include <verbena/verbena.h>

struct verbena_server {
  std::atomic<bool> stop = false;
  absl::Status ended;
  std::thread thread;
};

struct verbena_table {
  verbena::UntypedTable table;
};

struct verbena_session {
  std::unique_ptr<verbena::Session> session;
  std::deque<verbena_table> tables;  ///< a deque: handles stay where they are
};

struct verbena_pending {
  verbena::Pending pending;
};

struct verbena_held {
  verbena::HeldRows rows;
};

namespace verbena::job {
namespace {

/// A result with the memory of its arrays.
struct OwnedResult : verbena_result {
  explicit OwnedResult(FunctionResult said) : verbena_result(), held(std::move(said)) {
    keys = held.keys.data();
    key_count = held.keys.size();
    numbers = held.numbers.data();
    number_count = held.numbers.size();
  }
  const FunctionResult held;
};

struct LastError {
  std::string text;
  const char* shown = "";
};

LastError& last_error() {
  thread_local LastError the_last_error;
  return the_last_error;
}

verbena_code code_of(const absl::Status& status) {
  if (status.ok()) return VERBENA_OK;
  last_error().text = std::string(status.message());
  last_error().shown = last_error().text.c_str();
  return static_cast<verbena_code>(status.code());
}

/// The code of the exception that is being handled. Throws only if there is no memory.
verbena_code code_of_thrown() {
  try {
    throw;
  } catch (const std::system_error& thrown) {
    return code_of(absl::ResourceExhaustedError(thrown.what()));
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& thrown) {
    return code_of(absl::InternalError(thrown.what()));
  } catch (...) {
    return code_of(absl::UnknownError("something was thrown that is no exception"));
  }
}

/// What `call` returns, or what it throws, as a code.
template <class Call>
verbena_code guarded(Call&& call) noexcept {
  try {
    try {
      return code_of(call());
    } catch (...) {
      return code_of_thrown();
    }
  } catch (...) {
    last_error().shown = "no memory left";
    return VERBENA_RESOURCE_EXHAUSTED;
  }
}

/// Fields that the caller's header does not have yet keep their defaults.
template <class Options>
absl::StatusOr<Options> as_here(const Options* theirs, Options defaults) {
  if (theirs == nullptr) return absl::InvalidArgumentError("options are NULL");
  if (theirs->struct_bytes < sizeof theirs->struct_bytes || theirs->struct_bytes > sizeof(Options)) {
    return absl::InvalidArgumentError(
        fmt::format("options of {} bytes, where this library knows {}: begin with the header's initializer",
                    theirs->struct_bytes, sizeof(Options)));
  }
  std::memcpy(&defaults, theirs, theirs->struct_bytes);
  return defaults;
}

verbena::Keys keys_of(const verbena_keys& keys) {
  if (keys.list != nullptr) return std::span(keys.list, keys.count);
  return KeyRange{keys.first, keys.first + keys.count};
}

std::string text_of(const char* text) {
  return text == nullptr ? std::string() : std::string(text);
}

absl::StatusOr<NetworkOptions> network_of(const verbena_network* theirs) {
  if (theirs == nullptr) return NetworkOptions();
  const absl::StatusOr<verbena_network> network = as_here(theirs, VERBENA_NETWORK);
  if (!network.ok()) return network.status();
  if (network->device_port > UINT8_MAX)
    return absl::InvalidArgumentError(fmt::format("device port {}: at most 255", network->device_port));
  return NetworkOptions{.secret_file = text_of(network->secret_file),
                        .no_secret = network->no_secret != 0,
                        .tls = network->tls != 0,
                        .device = text_of(network->device),
                        .device_port = static_cast<std::uint8_t>(network->device_port),
                        .shares_cores = network->shares_cores != 0};
}

absl::Status start_server(const verbena_server_options* options, verbena_server** server) {
  const absl::StatusOr<verbena_server_options> given = as_here(options, VERBENA_SERVER_OPTIONS);
  if (!given.ok()) return given.status();
  absl::StatusOr<NetworkOptions> network = network_of(given->network);
  if (!network.ok()) return network.status();
  auto started = std::make_unique<verbena_server>();
  const base::SignalsBlocked blocked;
  started->thread = std::thread(
      [server = started.get(), wanted = ServerOptions{.address = text_of(given->address),
                                                      .rank = given->rank,
                                                      .servers = given->servers,
                                                      .workers = given->workers,
                                                      .outlives_workers = given->outlives_workers != 0,
                                                      .network = *std::move(network),
                                                      .threads = given->threads}] {
        try {
          server->ended = run_server(wanted, server->stop);
        } catch (const std::exception& thrown) {
          server->ended = absl::InternalError(thrown.what());
        }
      });
  *server = started.release();
  return absl::OkStatus();
}

absl::StatusOr<SessionOptions> session_options(const verbena_session_options* options) {
  const absl::StatusOr<verbena_session_options> given = as_here(options, VERBENA_SESSION_OPTIONS);
  if (!given.ok()) return given.status();
  absl::StatusOr<NetworkOptions> network = network_of(given->network);
  if (!network.ok()) return network.status();
  SessionOptions wanted{.rank = given->rank,
                        .workers = given->workers,
                        .timeout_ms = given->timeout_ms,
                        .clock_timeout_ms = given->clock_timeout_ms,
                        .network = *std::move(network)};
  for (std::size_t server = 0; server < given->server_count; ++server)
    wanted.servers.push_back(text_of(given->servers[server]));
  return wanted;
}

absl::Status keep(absl::StatusOr<std::unique_ptr<Session>> begun, verbena_session** session) {
  if (!begun.ok()) return begun.status();
  *session = new verbena_session{.session = *std::move(begun), .tables = {}};
  return absl::OkStatus();
}

absl::Status connect(const verbena_session_options* options, verbena_session** session) {
  const absl::StatusOr<SessionOptions> wanted = session_options(options);
  return wanted.ok() ? keep(Session::connect(*wanted), session) : wanted.status();
}

absl::Status join(const verbena_session_options* options, verbena_session** session) {
  const verbena_session_options defaults = VERBENA_SESSION_OPTIONS;
  absl::StatusOr<SessionOptions> wanted = session_options(options == nullptr ? &defaults : options);
  return wanted.ok() ? keep(Session::from_environment(*std::move(wanted)), session) : wanted.status();
}

absl::Status open(verbena_session& session, const verbena_table_options* options, verbena_table** table) {
  const absl::StatusOr<verbena_table_options> given = as_here(options, VERBENA_TABLE_OPTIONS);
  if (!given.ok()) return given.status();
  if (given->name == nullptr || given->consistency == nullptr || given->rule == nullptr ||
      given->initial == nullptr || given->admission == nullptr || given->eviction == nullptr ||
      given->filter == nullptr || given->encoding == nullptr) {
    return absl::InvalidArgumentError(
        "a table's name, consistency, rule, initial, admission, eviction, filter and encoding are texts, not "
        "NULL");
  }
  const absl::StatusOr<ConsistencyModel> model = parse_consistency(given->consistency);
  if (!model.ok()) return model.status();
  const auto type = static_cast<ValueType>(given->type);
  if (value_bytes(type) == 0)
    return absl::InvalidArgumentError(fmt::format("there is no type {}", given->type));
  const absl::StatusOr<UntypedTable> opened = session.session->untyped_table(
      {.name = given->name,
       .key_space = given->sparse != 0 ? KeySpace::kSparse : KeySpace::kDense,
       .rows = given->rows,
       .width = given->width,
       .consistency = *model,
       .allocation = given->dynamic != 0 ? Allocation::kDynamic : Allocation::kStatic,
       .rule = given->rule,
       .expected_rows = given->expected_rows,
       .initial = given->initial,
       .seed = given->seed,
       .admission = given->admission,
       .eviction = given->eviction,
       .filter = given->filter,
       .encoding = given->encoding,
       .cache_rows = given->cache_rows},
      type);
  if (!opened.ok()) return opened.status();
  for (verbena_table& known : session.tables) {
    if (known.table == *opened) {
      *table = &known;
      return absl::OkStatus();
    }
  }
  *table = &session.tables.emplace_back(verbena_table{*opened});
  return absl::OkStatus();
}

absl::Status hold(const verbena_table& table, const verbena_keys& keys, void** rows, verbena_held** held) {
  std::vector<std::byte*> places(keys.count);
  absl::StatusOr<HeldRows> taken = table.table.hold(keys_of(keys), places);
  if (!taken.ok()) return taken.status();
  std::copy(places.begin(), places.end(), rows);
  *held = new verbena_held{*std::move(taken)};
  return absl::OkStatus();
}

absl::Status begin(Pending begun, verbena_pending** pending) {
  *pending = new verbena_pending{std::move(begun)};
  return absl::OkStatus();
}

std::span<std::byte> bytes_of(void* values, std::size_t bytes) {
  return {static_cast<std::byte*>(values), bytes};
}

}  // namespace
}  // namespace verbena::job

using namespace verbena::job;  // NOLINT(google-build-using-namespace): the calls are outside of any

const char* verbena_last_error() {
  return last_error().shown;
}

const char* verbena_version() {
  return VERBENA_VERSION;
}

verbena_code verbena_start_server(const verbena_server_options* options, verbena_server** server) {
  return guarded([&] { return start_server(options, server); });
}

void verbena_stop_server(verbena_server* server) {
  server->stop = true;
}

verbena_code verbena_wait_for_server(verbena_server* server) {
  const std::unique_ptr<verbena_server> owned(server);
  return guarded([&] {
    owned->thread.join();
    return owned->ended;
  });
}

verbena_code verbena_connect(const verbena_session_options* options, verbena_session** session) {
  return guarded([&] { return connect(options, session); });
}

verbena_code verbena_join(const verbena_session_options* options, verbena_session** session) {
  return guarded([&] { return join(options, session); });
}

verbena_code verbena_report(verbena_session* session, int64_t iteration, double items, double seconds,
                            const char* const* names, const double* sums, size_t sum_count) {
  return guarded([&] {
    verbena::IterationReport report{.iteration = iteration, .items = items, .seconds = seconds, .sums = {}};
    for (std::size_t i = 0; i < sum_count; ++i) report.sums[names[i]] = sums[i];
    session->session->report(report);
    return absl::OkStatus();
  });
}

uint32_t verbena_rank(const verbena_session* session) {
  return session->session->rank();
}

uint32_t verbena_workers(const verbena_session* session) {
  return session->session->workers();
}

uint32_t verbena_servers(const verbena_session* session) {
  return session->session->servers();
}

void verbena_close(verbena_session* session) {
  delete session;
}

verbena_code verbena_clock(verbena_session* session) {
  return guarded([&] { return session->session->clock(); });
}

verbena_code verbena_barrier(verbena_session* session) {
  return guarded([&] { return session->session->barrier(); });
}

verbena_code verbena_limit_lead(verbena_session* session, uint32_t clocks) {
  return guarded([&] { return session->session->limit_lead(clocks); });
}

verbena_code verbena_give_up(verbena_session* session, const char* why) {
  return guarded([&] { return session->session->give_up(absl::AbortedError(why == nullptr ? "" : why)); });
}

int64_t verbena_current_clock(const verbena_session* session) {
  return session->session->current_clock();
}

void verbena_take_over(verbena_session* session) {
  session->session->take_over();
}

verbena_code verbena_open(verbena_session* session, const verbena_table_options* options,
                          verbena_table** table) {
  return guarded([&] { return open(*session, options, table); });
}

uint64_t verbena_rows(const verbena_table* table) {
  return table->table.rows();
}

uint32_t verbena_width(const verbena_table* table) {
  return table->table.width();
}

verbena_code verbena_pull(const verbena_table* table, verbena_keys keys, void* values, size_t bytes) {
  return guarded([&] { return table->table.pull(keys_of(keys), bytes_of(values, bytes)); });
}

verbena_code verbena_push(const verbena_table* table, verbena_keys keys, const void* updates, size_t bytes) {
  return guarded([&] {
    return table->table.push(keys_of(keys), {static_cast<const std::byte*>(updates), bytes});
  });
}

verbena_code verbena_call(const verbena_table* table, const char* function, verbena_keys keys,
                          const double* numbers, size_t number_count, verbena_result** result) {
  return guarded([&]() -> absl::Status {
    auto said =
        table->table.call(function == nullptr ? "" : function, keys_of(keys), {numbers, number_count});
    if (!said.ok()) return said.status();
    *result = new OwnedResult(*std::move(said));
    return absl::OkStatus();
  });
}

void verbena_end_result(verbena_result* result) {
  delete static_cast<OwnedResult*>(result);
}

verbena_code verbena_pull_async(const verbena_table* table, verbena_keys keys, void* values, size_t bytes,
                                verbena_pending** pending) {
  return guarded(
      [&] { return begin(table->table.pull_async(keys_of(keys), bytes_of(values, bytes)), pending); });
}

verbena_code verbena_localize(const verbena_table* table, verbena_keys keys, verbena_pending** pending) {
  return guarded([&] { return begin(table->table.localize(keys_of(keys)), pending); });
}

verbena_code verbena_intent(const verbena_table* table, verbena_keys keys, int64_t from, int64_t to) {
  return guarded([&] { return table->table.intent(keys_of(keys), from, to); });
}

int verbena_is_here(const verbena_table* table, uint64_t key) {
  return table->table.is_here(key) ? 1 : 0;
}

verbena_code verbena_hold(const verbena_table* table, verbena_keys keys, void** rows, verbena_held** held) {
  return guarded([&] { return hold(*table, keys, rows, held); });
}

verbena_code verbena_release(verbena_held* held) {
  const std::unique_ptr<verbena_held> owned(held);
  return guarded([&] { return owned->rows.release(); });
}

int verbena_is_done(const verbena_pending* pending) {
  return pending->pending.done() ? 1 : 0;
}

verbena_code verbena_wait(verbena_pending* pending) {
  const std::unique_ptr<verbena_pending> owned(pending);
  return guarded([&] { return owned->pending.wait(); });
}

void verbena_forget(verbena_pending* pending) {
  delete pending;
}
