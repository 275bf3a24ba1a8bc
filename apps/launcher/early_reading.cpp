#include "apps/launcher/early_reading.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "apps/thrown.hpp"
#include "base/return_if_error.hpp"
#include "base/signals_blocked.hpp"

namespace verbena::apps {
namespace {

/// Keeps what is to be said when somebody listens. Progress is of that moment.
class KeepingReporter final : public Reporter {
 public:
  KeepingReporter(std::uint32_t worker, std::vector<job::ChildMessage>& said)
      : worker_(worker), said_(said) {}
  void iteration(const IterationReport& report) override {
    said_.emplace_back(job::IterationMessage{worker_, report});
  }
  void print(std::string_view line) override { said_.emplace_back(job::PrintMessage{std::string(line)}); }
  void progress(std::string_view /*what*/, double /*done*/, double /*total*/) override {}
  void summary(const std::string& name, nlohmann::json value) override {
    said_.emplace_back(job::SummaryMessage{name, std::move(value)});
  }

 private:
  const std::uint32_t worker_;
  std::vector<job::ChildMessage>& said_;
};

}  // namespace

EarlyReading::EarlyReading(const Application& application, std::uint32_t first, std::uint32_t count,
                           std::uint32_t workers)
    : first_(first), parts_(count) {
  const base::SignalsBlocked blocked;
  for (std::uint32_t worker = first; worker < first + count; ++worker)
    threads_.emplace_back([this, &application, worker, workers] { read(application, worker, workers); });
}

EarlyReading::~EarlyReading() {
  for (std::thread& thread : threads_) thread.join();
}

void EarlyReading::read(const Application& application, std::uint32_t worker, std::uint32_t workers) {
  Part part;
  KeepingReporter reporter(worker, part.said);
  part.status = run_caught([&] {
    absl::StatusOr<std::unique_ptr<ReadAhead>> data = application.read_ahead(worker, workers, reporter);
    RETURN_IF_ERROR(data.status());
    part.read = *std::move(data);
    return absl::OkStatus();
  });
  part.has_ended = true;
  const std::lock_guard lock(mutex_);
  parts_[worker - first_] = std::move(part);
  changed_.notify_all();
}

bool EarlyReading::has_ended() const {
  const std::lock_guard lock(mutex_);
  return std::all_of(parts_.begin(), parts_.end(), [](const Part& part) { return part.has_ended; });
}

absl::Status EarlyReading::status() const {
  const std::lock_guard lock(mutex_);
  const auto failed =
      std::find_if(parts_.begin(), parts_.end(), [](const Part& part) { return !part.status.ok(); });
  return failed == parts_.end() ? absl::OkStatus() : failed->status;
}

absl::StatusOr<std::unique_ptr<ReadAhead>> EarlyReading::take(std::uint32_t worker, Outlet& outlet) {
  Part& place = parts_[worker - first_];
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return place.has_ended; });
  Part part = std::exchange(place, Part{.has_ended = true});
  lock.unlock();
  for (const job::ChildMessage& message : part.said) outlet.send(message);
  if (!part.status.ok()) return part.status;
  return std::move(part.read);
}

}  // namespace verbena::apps
