// `--metrics-port`: what a run tells of itself by HTTP. /metrics is for Prometheus, / a page for people, and
// /status.json what the page shows.
#pragma once

#include <poll.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "apps/monitoring/http_server.hpp"
#include "apps/report/run_record.hpp"
#include "apps/report/run_status.hpp"
#include "apps/report/summary.hpp"

namespace verbena::apps {

struct MonitoringOptions {
  static constexpr const char* kLoopback = "127.0.0.1";

  std::optional<std::uint32_t> port;  ///< 0: any that is free; nullopt: nobody listens
  std::string address = kLoopback;    ///< of an interface of this host
};

/// Thread safety: belongs to one thread at a time. It has no thread of its own: whoever listens to the run's
/// processes serves it, too.
class MonitoringPort {
 public:
  /// The status of this moment.
  using Status = absl::FunctionRef<RunStatus()>;

  /// The run begins now. INVALID_ARGUMENT if nobody can listen there, with the options' names. REQUIRES:
  /// there is a port.
  static absl::StatusOr<std::unique_ptr<MonitoringPort>> open(const MonitoringOptions& options);

  [[nodiscard]] const std::string& url() const { return http_->url(); }
  void add_descriptors(std::vector<pollfd>& wanted) const { http_->add_descriptors(wanted); }
  /// Answers whoever has asked; never waits. `record` is the run's, also that of a moment ago.
  void serve(const RunSettings& settings, const RunRecord& record, Status status);
  /// The run is over: answers those who have asked, and closes the port.
  void finish(const RunSettings& settings, const RunRecord& record, Status status);

 private:
  using Clock = std::chrono::steady_clock;
  struct Made {
    Clock::time_point at;
    HttpAnswer answer;
  };

  explicit MonitoringPort(std::unique_ptr<HttpServer> http) : http_(std::move(http)) {}

  HttpAnswer answer(std::string_view path, const RunSettings& settings, const RunRecord& record,
                    Status status);

  std::unique_ptr<HttpServer> http_;
  const std::chrono::system_clock::time_point began_ = std::chrono::system_clock::now();
  std::map<std::string, Made, std::less<>> made_;  ///< the newest answers, by path
};

}  // namespace verbena::apps
