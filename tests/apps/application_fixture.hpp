// What tests of any application need: a reporter that keeps what it is told, and an application with its
// options.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
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
  }
  void print(std::string_view line) override { lines.emplace_back(line); }
  void progress(std::string_view /*what*/, double done, double total) override { EXPECT_LE(done, total); }
  void summary(const std::string& name, nlohmann::json value) override { summaries[name] = std::move(value); }

  std::vector<IterationReport> reports;
  std::vector<std::string> lines;
  std::map<std::string, nlohmann::json> summaries;
  std::int64_t stop_after = -1;
  std::atomic<bool> stop = false;
};

/// `application`, its options set from `arguments`; what they leave open, from `defaults`, options and their values.
std::unique_ptr<Application> with_options(
    std::unique_ptr<Application> application, std::vector<std::string> arguments,
    const std::vector<std::pair<std::string, std::string>>& defaults = {});

absl::Status run_baseline(Application& application, Recorder& recorder);

}  // namespace verbena::apps
