// A server in a thread of this process.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "python/bindings/definitions.hpp"
#include "python/bindings/errors.hpp"
#include "python/bindings/lock.hpp"
#include "python/bindings/named_arguments.hpp"
#include "python/bindings/signals.hpp"
#include <verbena/server.hpp>

namespace verbena::python {
namespace {

class PythonServer {
 public:
  explicit PythonServer(ServerOptions options) : options_(std::move(options)), process_(process_number()) {
    thread_ = std::make_unique<std::thread>(thread_without_signals([this] { serve(); }));
    running().insert(this);
  }
  ~PythonServer() {
    running().erase(this);
    if (process_ != process_number()) {
      static_cast<void>(thread_.release());  // it is the parent's
      return;
    }
    stop();
    const Unlocked unlocked;
    thread_->join();
  }
  PythonServer(const PythonServer&) = delete;
  PythonServer& operator=(const PythonServer&) = delete;

  [[nodiscard]] const std::string& address() const { return options_.address; }
  void stop() { stop_ = true; }

  /// Returns false if it has not ended within so many seconds. Throws how it has ended, if not well.
  bool wait(const std::optional<double>& seconds) {
    if (process_ != process_number()) {
      check(
          absl::FailedPreconditionError("this server is the parent's, and a child that it has forked has "
                                        "none: it needs a server of its own"));
    }
    using Clock = std::chrono::steady_clock;
    constexpr double kForever = 1e9;
    const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(
                                        std::min(seconds.value_or(kForever), kForever)));
    bool has_ended = false;
    {
      const Unlocked unlocked;
      std::unique_lock lock(mutex_);
      while (!(has_ended = ended_.has_value()) && Clock::now() < end) {
        changed_.wait_until(lock, std::min(end, Clock::now() + kSignalInterval));
        lock.unlock();
        const bool is_interrupted = !look_for_signals().ok();
        lock.lock();
        if (is_interrupted) break;
      }
    }
    check(absl::OkStatus());  // throws what a signal has raised
    if (!has_ended) return false;
    const bool was_stopped = stop_ && absl::IsCancelled(*ended_);
    if (!was_stopped) check(*ended_);
    return true;
  }

  [[nodiscard]] bool is_running() {
    if (process_ != process_number()) return false;
    const std::scoped_lock lock(mutex_);
    return !ended_.has_value();
  }

  /// For the end of the interpreter: nobody waits for them any more.
  static void stop_all() {
    for (PythonServer* const server : running()) {
      if (server->process_ != process_number()) continue;
      server->stop();
      const Unlocked unlocked;
      std::unique_lock lock(server->mutex_);
      server->changed_.wait(lock, [&] { return server->ended_.has_value(); });
    }
  }

 private:
  static std::set<PythonServer*>& running() {
    static auto& all = *new std::set<PythonServer*>;
    return all;
  }

  void serve() {
    absl::Status ended;
    try {
      ended = run_server(options_, stop_);
    } catch (const std::exception& thrown) {
      ended = absl::InternalError(thrown.what());
    }
    const std::scoped_lock lock(mutex_);
    ended_ = std::move(ended);
    changed_.notify_all();
  }

  const ServerOptions options_;
  const std::uint64_t process_;
  std::atomic<bool> stop_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<absl::Status> ended_;
  std::unique_ptr<std::thread> thread_;
};

std::unique_ptr<PythonServer> make_server(const std::string& address, const py::kwargs& given) {
  ServerOptions options{.address = address};
  NamedArguments arguments("Server", given);
  arguments.take("rank", options.rank);
  arguments.take("servers", options.servers);
  arguments.take("workers", options.workers);
  arguments.take("outlives_workers", options.outlives_workers);
  arguments.take("backup_every_ms", options.backup_every_ms);
  arguments.take("replaces_workers", options.replaces_workers);
  arguments.take("silence_timeout_ms", options.silence_timeout_ms);
  arguments.take("threads", options.threads);
  arguments.take("lanes", options.lanes);
  arguments.take("push_budget_mb_per_s", options.push_budget_mb_per_s);
  take_network(arguments, options.network);
  arguments.end();
  if (options.address.ends_with(":0") && !options.address.starts_with("shm:"))
    refuse("address: a port is expected that its workers know, not 0, in \"" + options.address + "\"");
  return std::make_unique<PythonServer>(std::move(options));
}

}  // namespace

void define_server(py::module_& module) {
  py::class_<PythonServer>(module, "Server", "A server of a job, in a thread of this process.")
      .def(py::init(&make_server), py::arg("address"))
      .def("wait", &PythonServer::wait, py::arg("timeout") = py::none(),
           "Waits until all workers have left or the server was stopped; raises why the job has failed. With "
           "a "
           "timeout in seconds: returns whether it has ended.")
      .def("stop", &PythonServer::stop, "The server ends in a moment, whatever its workers do.")
      .def("__enter__", [](const py::object& self) { return self; })
      .def("__exit__",
           [](PythonServer& server, const py::object& kind, const py::object& /*raised*/,
              const py::object& /*traceback*/) {
             if (!kind.is_none()) return server.stop();
             static_cast<void>(server.wait(std::nullopt));
           })
      .def_property_readonly("address", &PythonServer::address)
      .def_property_readonly("running", &PythonServer::is_running);
  module.def("_stop_servers", &PythonServer::stop_all);
}

}  // namespace verbena::python
