#include "apps/monitoring/monitoring_port.hpp"

#include <fmt/format.h>

#include "apps/monitoring/exposition.hpp"
#include "apps/monitoring/live_page.hpp"
#include "job/child_message.hpp"

namespace verbena::apps {
namespace {

/// So old an answer may be: however often somebody asks, little time is spent on it.
constexpr auto kFresh = std::chrono::milliseconds(50);
constexpr auto kPatienceAtTheEnd = std::chrono::milliseconds(200);

constexpr const char* kPagePath = "/";
constexpr const char* kMetricsPath = "/metrics";
constexpr const char* kStatusPath = "/status.json";

}  // namespace

absl::StatusOr<std::unique_ptr<MonitoringPort>> MonitoringPort::open(const MonitoringOptions& options) {
  absl::StatusOr<std::unique_ptr<HttpServer>> http =
      HttpServer::listen(options.address, static_cast<std::uint16_t>(*options.port));
  if (!http.ok()) {
    return absl::InvalidArgumentError(fmt::format("--metrics-port {} --metrics-address {}: {}", *options.port,
                                                  options.address, std::string(http.status().message())));
  }
  return std::unique_ptr<MonitoringPort>(new MonitoringPort(*std::move(http)));
}

void MonitoringPort::serve(const RunSettings& settings, const RunRecord& record, Status status) {
  http_->poll([&](std::string_view path) { return answer(path, settings, record, status); });
}

void MonitoringPort::finish(const RunSettings& settings, const RunRecord& record, Status status) {
  made_.clear();
  http_->finish([&](std::string_view path) { return answer(path, settings, record, status); },
                kPatienceAtTheEnd);
}

HttpAnswer MonitoringPort::answer(std::string_view path, const RunSettings& settings, const RunRecord& record,
                                  Status status) {
  if (path == kPagePath) return {.type = "text/html; charset=utf-8", .body = live_page(settings)};
  if (path != kMetricsPath && path != kStatusPath) {
    return {.status = 404,
            .body = fmt::format("There is {} for Prometheus, {} a page for people, and {} for programs.\n",
                                kMetricsPath, kPagePath, kStatusPath)};
  }
  const Clock::time_point now = Clock::now();
  const auto found = made_.find(path);
  if (found != made_.end() && now < found->second.at + kFresh) return found->second.answer;
  HttpAnswer fresh;
  if (path == kMetricsPath) {
    const std::chrono::duration<double> began_seconds = began_.time_since_epoch();
    fresh = {.type = kExpositionType, .body = exposition(settings, record, status(), began_seconds.count())};
  } else {
    fresh = {.type = "application/json", .body = job::to_line(live_json(settings, record, status()))};
  }
  made_.insert_or_assign(std::string(path), Made{now, fresh});
  return fresh;
}

}  // namespace verbena::apps
