#include "job/server_place.hpp"

#include <fmt/format.h>

#include <random>

#include "base/decimal.hpp"

namespace verbena::job {
namespace {

constexpr std::string_view kBeforeServer = "/server-";
constexpr std::string_view kRun = "run-";
constexpr std::size_t kUniqueDigits = 16;

}  // namespace

std::string place_of_store(std::int64_t run) {
  return fmt::format("verbena/{}/store", run);
}

ServerPlace ServerPlace::fresh(std::int64_t run, std::uint32_t server) {
  std::random_device random;
  return {fmt::format("{}-{:08x}{:08x}", name_of_run(run), random(), random()), server};
}

std::optional<ServerPlace> ServerPlace::parse(std::string_view text) {
  const std::size_t at = text.rfind(kBeforeServer);
  if (at == std::string_view::npos || at == 0) return std::nullopt;
  const auto server = base::parse_decimal<std::uint32_t>(text.substr(at + kBeforeServer.size()));
  if (!server) return std::nullopt;
  return ServerPlace{std::string(text.substr(0, at)), *server};
}

std::string ServerPlace::text() const {
  return fmt::format("{}{}{}", job, kBeforeServer, server);
}

std::optional<std::int64_t> ServerPlace::run_of(std::string_view shown_job) {
  if (!shown_job.starts_with(kRun)) return std::nullopt;
  return base::parse_decimal<std::int64_t>(shown_job.substr(kRun.size()));
}

std::string ServerPlace::name_of_run(std::int64_t run) {
  return fmt::format("{}{}", kRun, run);
}

std::string ServerPlace::shown_job() const {
  const std::size_t end = job.rfind('-');
  const bool is_run = job.starts_with(kRun) && end != std::string::npos &&
                      job.size() - end - 1 == kUniqueDigits && end > kRun.size();
  return is_run ? job.substr(0, end) : job;
}

}  // namespace verbena::job
