// What tests of any application need: a reporter that keeps what it is told, an application with its options,
// and what is expected of each of them.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/application.hpp"

namespace verbena::apps {

/// Keeps what it is told; can ask to stop.
class Recorder final : public Reporter {
 public:
  void iteration(const IterationReport& report) override {
    reports.push_back(report);
    if (report.iteration == stop_after) stop = true;
    if (after_iteration) after_iteration(report.iteration);
  }
  void print(std::string_view line) override { lines.emplace_back(line); }
  void progress(std::string_view /*what*/, double done, double total) override { EXPECT_LE(done, total); }
  void summary(const std::string& name, nlohmann::json value) override { summaries[name] = std::move(value); }

  std::vector<IterationReport> reports;
  std::vector<std::string> lines;
  std::map<std::string, nlohmann::json> summaries;
  std::int64_t stop_after = -1;
  std::function<void(std::int64_t iteration)> after_iteration;  ///< called by the worker
  std::atomic<bool> stop = false;
};

/// `application`, its options set from `arguments`; what they leave open, from `defaults`, options and their
/// values.
std::unique_ptr<Application> with_options(
    std::unique_ptr<Application> application, std::vector<std::string> arguments,
    const std::vector<std::pair<std::string, std::string>>& defaults = {});

absl::Status run_baseline(Application& application, Recorder& recorder);

/// How a test gets its application: these options, and for what they leave open such as suit it.
using Parsed = std::function<std::unique_ptr<Application>(std::vector<std::string> arguments)>;

/// Seven iterations in a plain loop, to be evaluated after every third: all are reported, with equal numbers
/// of items, and `objective` is known where it is due, the end included. Those named in `always` are known
/// after each iteration; where there are none of them, nothing is.
void expect_evaluations_when_due(const Parsed& parsed, Recorder& recorder, const std::string& objective,
                                 const std::vector<std::string>& always = {});
/// Two runs of a few iterations save the same, and one with another seed something else. `saved(path)`: all
/// that was saved for --output `path`, more than `least_bytes`.
void expect_runs_to_be_equal(const Parsed& parsed,
                             const std::function<std::string(const std::string& path)>& saved,
                             std::size_t least_bytes);
/// A plain loop that is asked to stop after its second iteration does so, and writes nothing.
void expect_to_stop_without_files(const Parsed& parsed, const std::vector<std::string>& arguments = {});
/// The error names what to do about it.
void expect_to_say_that_it_diverges(Application& application);
/// What the application, or the command line before it, says of these.
absl::Status check_options(const Parsed& parsed, const std::vector<std::string>& arguments,
                           std::uint32_t workers);
/// In jobs of four workers: by arguments, what the error says, among other things.
using Refusals = std::vector<std::pair<std::vector<std::string>, std::string>>;
void expect_refusals(const Parsed& parsed, const Refusals& refusals);
/// Where rows are allocated in another way, a table needs the model that goes with it.
void expect_allocations_to_need_their_model(const Parsed& parsed);

}  // namespace verbena::apps
