#include "tests/process/counter.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "absl/functional/function_ref.h"
#include "apps/data/output_file.hpp"
#include "apps/options/numbers.hpp"
#include "apps/resuming/checkpoints.hpp"
#include "base/return_if_error.hpp"
#include <verbena/table.hpp>

namespace verbena::apps {
namespace {

constexpr std::uint64_t kRows = 10;  // of each operation
constexpr std::uint32_t kWidth = 4;

/// How long operations take whoever calls them.
class Times {
 public:
  absl::Status add(absl::FunctionRef<absl::Status()> operation) {
    const auto start = std::chrono::steady_clock::now();
    absl::Status status = operation();
    ms_.push_back(
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
    return status;
  }
  std::string line() {
    std::sort(ms_.begin(), ms_.end());
    const auto at = [&](double share) {
      return ms_[std::min(static_cast<std::size_t>(share * static_cast<double>(ms_.size())), ms_.size() - 1)];
    };
    return fmt::format("{} operations: p50 {:.3f}, p99 {:.3f}, p99.9 {:.3f}, most {:.3f} ms", ms_.size(),
                       at(0.5), at(0.99), at(0.999), ms_.back());
  }

 private:
  std::vector<double> ms_;
};

class Counter : public Application {
 public:
  [[nodiscard]] std::string_view name() const override { return "counter"; }
  [[nodiscard]] std::string_view description() const override { return "count iterations"; }
  [[nodiscard]] std::string_view throughput_unit() const override { return "rows"; }
  [[nodiscard]] std::string_view main_objective() const override { return "counted"; }

  void add_options(CLI::App& command) override {
    add_number(command, "--iterations", iterations_, "How far it counts.")->capture_default_str();
    add_number(command, "--seed", seed_, "Of nothing.")->capture_default_str();
    add_number(command, "--milliseconds", milliseconds_, "Length of an iteration.");
    command.add_option("--output", output_, "Where worker 0 writes the count.");
    command.add_flag("--dynamic", dynamic_, "Count in rows that can move.");
    command.add_option("--fail", fail_,
                       "What worker 0 does in iteration 2: hang, throw, abort, exit, error, input.");
    command.add_flag("--hold", hold_, "Worker 0 holds a row for good, which the others push to.");
    command.add_option("--bad-check", bad_check_, "What check() complains of.");
    command.add_option("--words", words_, "Said by worker 0.");
    add_number(command, "--rows", rows_, "Of the table; each iteration counts in ten of them.");
    command.add_flag("--times", times_, "Each worker says how long its operations took.");
  }

  [[nodiscard]] Files files() const override {
    Files files;
    files.writes("--output", output_);
    return files;
  }
  absl::Status check(std::uint32_t /*workers*/) override {
    if (!bad_check_.empty()) return absl::InvalidArgumentError(bad_check_);
    return output_.empty() ? absl::OkStatus() : OutputFile::check(output_);
  }
  [[nodiscard]] std::int64_t iterations() const override { return iterations_; }
  [[nodiscard]] bool can_be_resumed() const override { return true; }
  [[nodiscard]] bool may_change_on_resume(std::string_view option) const override { return option != "seed"; }
  [[nodiscard]] std::map<std::string, double> objectives(
      const std::map<std::string, double>& sums) const override {
    return {{"counted", sums.at("count")}, {"workers_heard", sums.at("workers")}};
  }

  absl::Status run_worker(WorkerContext& context) const override {
    absl::Status status = hold_ ? hold(context) : count(context);
    // A process that is killed does not say this.
    if (!status.ok()) fmt::print(stderr, "counter {} ends\n", context.session.rank());
    return status;
  }

  absl::Status run_baseline(BaselineContext& context) const override {
    for (std::int64_t iteration = 1; iteration <= iterations_; ++iteration) {
      RETURN_IF_ERROR(misbehave(iteration == 2, context.stop));
      report(context.reporter, iteration, static_cast<double>(iteration));
    }
    return finish(context.reporter, iterations_);
  }

 private:
  absl::Status count(WorkerContext& context) const {
    const bool first = context.session.rank() == 0;
    auto table = context.session.table<std::int64_t>(
        {.name = "counts",
         .rows = std::max(rows_, kRows),
         .width = kWidth,
         .consistency = context.consistency,
         .allocation = dynamic_ ? Allocation::kDynamic : Allocation::kStatic});
    if (!table.ok()) return table.status();
    std::vector<std::int64_t> values(kRows * kWidth);
    const std::vector<std::int64_t> ones(kRows * kWidth, 1);
    if (first) context.reporter.progress("reading data", 1, 1);
    Checkpoints& checkpoints = context.checkpoints;
    Times times;
    for (std::int64_t iteration = checkpoints.first_iteration(); iteration <= iterations_; ++iteration) {
      RETURN_IF_ERROR(misbehave(first && iteration == 2, context.stop));
      const Key begin = static_cast<Key>(iteration) * kRows % (std::max(rows_, kRows) - kRows + 1);
      const KeyRange keys{begin, begin + kRows};
      RETURN_IF_ERROR(times.add([&] { return table->pull(keys, values); }));
      RETURN_IF_ERROR(times.add([&] { return table->push(keys, ones); }));
      RETURN_IF_ERROR(times.add([&] { return context.session.clock(); }));
      report(context.reporter, iteration, static_cast<double>(values[0]));
      RETURN_IF_ERROR(checkpoints.after_iteration(iteration, iteration == iterations_,
                                                  [] { return nlohmann::json::object(); }));
      if (context.stop) return absl::CancelledError("stopped");
    }
    RETURN_IF_ERROR(context.session.barrier());
    RETURN_IF_ERROR(table->pull(KeyRange{0, kRows}, values));
    if (times_) context.reporter.print(times.line());
    return first ? finish(context.reporter, values.back()) : absl::OkStatus();
  }

  static absl::Status hold(WorkerContext& context) {
    auto table = context.session.table<float>({.name = "held",
                                               .rows = 1,
                                               .width = 1,
                                               .consistency = Sequential{},
                                               .allocation = Allocation::kDynamic});
    if (!table.ok()) return table.status();
    const Key key = 0;
    const float one = 1;
    if (context.session.rank() > 0) {
      absl::Status status;
      while (status.ok() && !context.stop) status = table->push(std::span(&key, 1), {&one, 1});
      return status.ok() ? absl::CancelledError("stopped") : status;
    }
    float* row = nullptr;
    HeldRows held;
    while (row == nullptr) {
      absl::StatusOr<HeldRows> taken = table->hold(std::span(&key, 1), {&row, 1});
      if (!taken.ok()) return taken.status();
      held = *std::move(taken);
    }
    fmt::print(stderr, "holding\n");
    while (!context.stop) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    RETURN_IF_ERROR(held.release());
    return absl::CancelledError("stopped");
  }

  void report(Reporter& reporter, std::int64_t iteration, double count) const {
    reporter.iteration({.iteration = iteration,
                        .items = kRows,
                        .seconds = 0.001 * static_cast<double>(1 + milliseconds_),
                        .sums = {{"count", count}, {"workers", 1}}});
  }

  absl::Status finish(Reporter& reporter, std::int64_t count) const {
    if (!words_.empty()) reporter.print(words_);
    reporter.summary("final_count", count);
    if (output_.empty()) return absl::OkStatus();
    auto file = OutputFile::create(output_);
    if (!file.ok()) return file.status();
    file->write(fmt::format("{}\n", count));
    return file->commit();
  }

  absl::Status misbehave(bool now, const std::atomic<bool>& stop) const {
    for (std::int64_t waited = 0; waited < milliseconds_ && !stop; waited += 10) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    if (!now || fail_.empty()) return absl::OkStatus();
    if (fail_ == "hang") {
      fmt::print(stderr, "hanging\n");
      for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
    }
    if (fail_ == "throw") throw std::runtime_error("thrown on purpose");
    if (fail_ == "abort") std::abort();
    if (fail_ == "exit") ::_exit(3);
    if (fail_ == "input") return absl::InvalidArgumentError("data.txt:17: a number was expected, not \"x\"");
    return absl::ResourceExhaustedError("failed on purpose");
  }

  std::int64_t iterations_ = 5;
  std::uint64_t seed_ = 1;
  std::int64_t milliseconds_ = 0;
  std::string output_;
  std::string fail_;
  bool hold_ = false;
  std::string bad_check_;
  std::string words_;
  bool dynamic_ = false;
  std::uint64_t rows_ = kRows;
  bool times_ = false;
};

}  // namespace

std::unique_ptr<Application> make_counter() {
  return std::make_unique<Counter>();
}

}  // namespace verbena::apps
