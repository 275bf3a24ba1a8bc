// What an application (lda, mf, …) is to the launcher: options, a part that runs in each worker process, and
// a plain loop. The launcher parses the same command line in every process, so options reach the workers
// unchanged.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "apps/chart.hpp"
#include "apps/files.hpp"
#include "apps/training_watch.hpp"
#include <verbena/session.hpp>

namespace CLI {
class App;
}  // namespace CLI

namespace verbena::apps {

class Checkpoints;  // apps/resuming/checkpoints.hpp

/// Where a worker (or the plain loop) reports to. Provided by the launcher.
class Reporter {
 public:
  virtual ~Reporter() = default;
  virtual void iteration(const IterationReport& report) = 0;
  /// A line for people, such as the top words of a topic; printed above the progress line. Rank 0 only.
  virtual void print(std::string_view line) = 0;
  /// A slow part other than training ("reading data"), shown as a progress bar; done ≤ total.
  virtual void progress(std::string_view what, double done, double total) = 0;
  /// Anything the model adds to the summary object. Rank 0 only.
  virtual void summary(const std::string& name, nlohmann::json value) = 0;
};

/// What an application has read for a worker before that has its place in the job
/// (Application::read_ahead()).
class ReadAhead {
 public:
  virtual ~ReadAhead() = default;
};
/// As something that the application alone knows.
template <class Data>
struct ReadAheadOf final : ReadAhead {
  explicit ReadAheadOf(Data read) : data(std::move(read)) {}
  Data data;
};

struct WorkerContext {
  Session& session;
  ConsistencyModel consistency;  ///< for the application's tables
  Reporter& reporter;
  /// Ctrl-C: return CANCELLED at the next convenient place, writing nothing. Not set where the training is to
  /// be saved first: Checkpoints::after_iteration() then ends it.
  const std::atomic<bool>& stop;
  TrainingWatch& watch;      ///< to be told of each mini-batch and clock
  Checkpoints& checkpoints;  ///< to be told of each iteration, by applications that can be resumed
  std::unique_ptr<ReadAhead> read_ahead = nullptr;  ///< what the application has read; nullptr: nothing yet

  /// What it has read for this worker, or what `read` returns now, an absl::StatusOr<Data>.
  template <class Read>
  [[nodiscard]] auto take_data(Read read) -> decltype(read()) {
    using Data = typename decltype(read())::value_type;
    if (read_ahead == nullptr) return read();
    return std::move(static_cast<ReadAheadOf<Data>&>(*std::exchange(read_ahead, nullptr)).data);
  }
};

struct BaselineContext {
  Reporter& reporter;
  const std::atomic<bool>& stop;
};

/// What an application must know of its job to choose the options that are left to it.
struct JobShape {
  ConsistencyModel consistency;  ///< given, or the default
  std::uint32_t workers = 1;     ///< all of them
  std::uint32_t servers = 1;
};

/// An option of an application that says how it trains what it is told to.
struct ChoiceOption {
  std::string_view option;  ///< its name without dashes
  /// The name, among what is added to the summary, of what the data has decided where the option was left
  /// open; empty: the data decides nothing.
  std::string_view decided_by = {};
};

class Application {
 public:
  virtual ~Application() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  [[nodiscard]] virtual std::string_view description() const = 0;  ///< one line, for --help
  /// Unit of IterationReport::items, plural: "tokens", "ratings".
  [[nodiscard]] virtual std::string_view throughput_unit() const = 0;
  /// The objective shown in the progress line and drawn first: a name that objectives() returns.
  [[nodiscard]] virtual std::string_view main_objective() const = 0;

  /// Adds the application's own options (whole words: --data, --iterations, --seed, --output, --rank, …).
  virtual void add_options(CLI::App& command) = 0;

  /// The consistency model of its tables if --consistency is not given, in the form that --consistency takes.
  /// `is_one_node`: all rows lie with one server, in memory that all workers can map. `workers`: how many
  /// there are. May depend on the parsed options, which may be wrong.
  [[nodiscard]] virtual std::string default_consistency(bool /*is_one_node*/,
                                                        std::uint32_t /*workers*/) const {
    return "bsp";
  }

  /// The job is decided. Called after the options are parsed and before all that follows. Options that are
  /// left to the application may follow from it.
  virtual void set_job_shape(const JobShape& /*shape*/) {}
  /// What the option of this name, without dashes, stands for where it was left to the application ("auto");
  /// empty: nothing, for it does nothing beside the others; nullopt: it says itself.
  [[nodiscard]] virtual std::optional<std::string> chosen(std::string_view /*option*/) const {
    return std::nullopt;
  }

  /// The options that a run lists among its choices (apps/report/choices.hpp): those that do something beside
  /// the others.
  [[nodiscard]] virtual std::vector<ChoiceOption> choices() const { return {}; }
  /// Whether it has sparse tables, so that there is something to gather.
  [[nodiscard]] virtual bool has_sparse_tables() const { return false; }
  /// Whether the option of this name, without dashes, leaves it to the application, even if it is on the
  /// command line ("auto").
  [[nodiscard]] virtual bool leaves_open(std::string_view /*option*/) const { return false; }

  /// The files that it would read and write with the parsed options, including those with a name derived from
  /// a prefix or folder. The options may be wrong.
  [[nodiscard]] virtual Files files() const = 0;

  /// Runs once in the launcher before any process is started. Checks that the options fit together, the input
  /// can be read, the output can be written, and the memory suffices. `workers` counts all workers; 1 for the
  /// plain loop. Errors are INVALID_ARGUMENT or NOT_FOUND with one clear line.
  virtual absl::Status check(std::uint32_t workers) = 0;
  /// Also runs once in the launcher, before check(), but not for the plain loop. Checks whether the
  /// application's tables can have this consistency model with the given options.
  [[nodiscard]] virtual absl::Status check_consistency(const ConsistencyModel& /*consistency*/) const {
    return absl::OkStatus();
  }
  /// The same for the plain loop: whether it can be had with the given options.
  [[nodiscard]] virtual absl::Status check_baseline() const { return absl::OkStatus(); }

  [[nodiscard]] virtual std::int64_t iterations() const = 0;

  /// Whether its training can be saved, and gone on with, with the given options. By default it cannot.
  [[nodiscard]] virtual bool can_be_resumed() const { return false; }
  /// Whether a run that goes on from a checkpoint may have another value of this option, without dashes: it
  /// must not change what is done with what was saved. Files that are read are compared by their bytes, and
  /// those that are written may have other names; neither is asked for here.
  [[nodiscard]] virtual bool may_change_on_resume(std::string_view option) const {
    return option == "iterations" || option == "evaluate-every" || option == "top-words";
  }
  /// The run goes on from a checkpoint with these notes, "--OPTION" and its value. Called in each process of
  /// the job, after set_job_shape(), before it asks what was chosen: options that are left open may follow
  /// from what was saved. INVALID_ARGUMENT: given options do not go with that.
  virtual absl::Status goes_on_from(const std::map<std::string, std::string>& /*notes*/) {
    return absl::OkStatus();
  }

  /// Whether a worker that has died can be replaced by another process, with the given options: what a worker
  /// alone knows can be made again from its data, and run_worker() does what Session::is_catching_up() asks
  /// for.
  [[nodiscard]] virtual bool can_replace_workers() const { return false; }

  /// Reads what that worker needs, of so many, as far as it can be read without the job: run_worker() has it
  /// as WorkerContext::read_ahead. So the others need not wait for that while another process takes a
  /// worker's place. nullptr: nothing. Errors are run_worker()'s.
  virtual absl::StatusOr<std::unique_ptr<ReadAhead>> read_ahead(std::uint32_t /*worker*/,
                                                                std::uint32_t /*workers*/,
                                                                Reporter& /*reporter*/) const {
    return nullptr;
  }

  /// Computes the objectives, by name, from the sums over all workers.
  [[nodiscard]] virtual std::map<std::string, double> objectives(
      const std::map<std::string, double>& sums) const = 0;
  /// Charts for the page of --report, beside the curves of the objectives. `model_summary`: an object with
  /// all that the model has added to the summary, as another process has sent it; where it is not as
  /// expected, there is no chart.
  [[nodiscard]] virtual std::vector<ModelChart> charts(const nlohmann::json& /*model_summary*/) const {
    return {};
  }

  /// Trains as one worker of many. Called by all threads of a process (--threads) at once, on one object.
  /// Bad input is INVALID_ARGUMENT, "file:line: what was expected".
  virtual absl::Status run_worker(WorkerContext& context) const = 0;
  /// Trains in a plain loop over the same kernel, without a parameter server (--baseline).
  virtual absl::Status run_baseline(BaselineContext& context) const = 0;
};

/// Makes each application that the binary knows, in the order of --help.
std::vector<std::unique_ptr<Application>> make_applications();

}  // namespace verbena::apps
