// Looks at a running job without taking part in it: which tables there are, what they take, what their rows
// are. For tools, dashboards and whoever wonders what a model is doing.
//
//   auto observer = verbena::Observer::connect({.servers = {"shm:demo/server-0"}});
//   for (const auto& table : *(*observer)->tables()) {
//     auto largest = (*observer)->call(table, "top(count=3)", verbena::kAllKeys);
//     …
//   }
//
// An observer is no worker: no clock waits for it, and whatever becomes of it, the job does not notice. It
// only asks servers, whose lanes do the work beside their other work, so that it sees rows as functions do
// that change none (<verbena/server_function.hpp>): each is whole, and together they are of no single moment.
// A server has at most 16 observers. When a job ends, so do its servers, and calls return UNAVAILABLE.
//
// Thread safety: none; one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include <verbena/keys.hpp>
#include <verbena/network.hpp>
#include <verbena/server_function.hpp>
#include <verbena/session.hpp>
#include <verbena/value_type.hpp>

namespace verbena {

struct ObserverOptions {
  std::vector<std::string> servers;  ///< addresses of all, in any order; of one with copies, of any of these
  NetworkOptions network = {};
  /// For a server to appear, and for each of its answers.
  std::uint32_t timeout_ms = 10'000;
  /// As SessionOptions::transport.
  std::shared_ptr<transport::Transport> transport = nullptr;
};

/// How the job is, as far as its servers know.
struct ObservedJob {
  std::uint32_t servers = 0;
  std::uint32_t workers = 0;
  std::uint32_t workers_left = 0;  ///< of these, how many have left
  /// The last clock that all workers have reached which have not left; nullopt: all have left.
  std::optional<std::int64_t> clock = 0;
};

/// An open table.
struct ObservedTable {
  std::uint32_t number = 0;
  /// As workers have opened it, but for what only they know (cache_rows, filter, encoding). `rule` may be one
  /// that this process does not know.
  TableOptions options;
  ValueType type = ValueType::kFloat;
};

class Observer {
 public:
  /// Connects to all servers of the job. INVALID_ARGUMENT: these are not all servers of one job; or
  /// impossible options. DEADLINE_EXCEEDED or UNAVAILABLE, with the address.
  static absl::StatusOr<std::unique_ptr<Observer>> connect(const ObserverOptions& options);
  ~Observer();
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;

  // Errors of all calls: UNAVAILABLE: a server is gone. DEADLINE_EXCEEDED: it does not answer. Afterwards
  // every call returns this error.

  absl::StatusOr<ObservedJob> job();
  /// Those that are open on all servers.
  absl::StatusOr<std::vector<ObservedTable>> tables();
  /// As Table::call(), for functions that change no rows: PERMISSION_DENIED for others. A range other than
  /// kAllKeys is a list of its keys. FAILED_PRECONDITION: the table is dynamic, or a server does not know the
  /// function. INVALID_ARGUMENT: this process does not know it, or its parameters are wrong.
  absl::StatusOr<FunctionResult> call(const ObservedTable& table, std::string_view function, Keys keys);
  /// What the table takes on all servers.
  absl::StatusOr<TableMemory> memory(const ObservedTable& table);
  /// Calls use(key, values) for each row that there is, in no order that means anything, for static tables.
  /// Rows that come or go meanwhile may or may not be among them. If `use` returns an error, that is the end,
  /// and it is returned.
  absl::Status scan(const ObservedTable& table,
                    absl::FunctionRef<absl::Status(Key, std::span<const double>)> use);

 private:
  class Core;
  explicit Observer(std::unique_ptr<Core> core);
  std::unique_ptr<Core> core_;
};

}  // namespace verbena
