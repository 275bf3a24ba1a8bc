#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <numeric>

#include "worker/session_core.hpp"
#include "worker/surroundings.hpp"
#include <verbena/session.hpp>
#include <verbena/table.hpp>

namespace verbena {
namespace {

constexpr std::size_t kPartsOfATwo = 4;

/// One bucket for each of 0 … 3 ns, then four for each power of two.
std::size_t bucket_of(std::uint64_t ns) {
  if (ns < kPartsOfATwo) return ns;
  const auto log = static_cast<std::size_t>(std::bit_width(ns)) - 1;
  return kPartsOfATwo * (log - 1) + ((ns >> (log - 2)) & (kPartsOfATwo - 1));
}

/// Where the next bucket begins.
double end_of_bucket_seconds(std::size_t bucket) {
  constexpr double kNsPerSecond = 1e9;
  const auto next = static_cast<double>(bucket + 1);
  if (bucket < kPartsOfATwo) return next / kNsPerSecond;
  const auto parts = static_cast<double>(kPartsOfATwo + bucket % kPartsOfATwo + 1);
  return std::ldexp(parts, static_cast<int>(bucket / kPartsOfATwo) - 1) / kNsPerSecond;
}

}  // namespace

double StalenessHistogram::mean_clock_differential() const {
  double reads = 0;
  double sum = 0;
  for (std::size_t lag = 0; lag < reads_by_lag.size(); ++lag) {
    reads += static_cast<double>(reads_by_lag[lag]);
    sum += static_cast<double>(reads_by_lag[lag]) * (-1.0 - static_cast<double>(lag));
  }
  return reads == 0 ? 0 : sum / reads;
}

void StalenessHistogram::merge(const StalenessHistogram& other) {
  reads_by_lag.resize(std::max(reads_by_lag.size(), other.reads_by_lag.size()));
  for (std::size_t lag = 0; lag < other.reads_by_lag.size(); ++lag)
    reads_by_lag[lag] += other.reads_by_lag[lag];
}

void DurationHistogram::add(double seconds) {
  constexpr double kMostSeconds = 1e9;
  const auto ns = std::chrono::duration<double>(std::clamp(seconds, 0.0, kMostSeconds));
  const std::size_t bucket =
      bucket_of(static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(ns).count()));
  if (bucket >= counts.size()) counts.resize(bucket + 1);
  ++counts[bucket];
}

void DurationHistogram::merge(const DurationHistogram& other) {
  counts.resize(std::max(counts.size(), other.counts.size()));
  for (std::size_t bucket = 0; bucket < other.counts.size(); ++bucket) counts[bucket] += other.counts[bucket];
}

std::optional<double> DurationHistogram::quantile_seconds(double quantile) const {
  const auto all = static_cast<double>(std::accumulate(counts.begin(), counts.end(), std::uint64_t{0}));
  if (all == 0) return std::nullopt;
  double up_to = 0;
  for (std::size_t bucket = 0; bucket < counts.size(); ++bucket) {
    up_to += static_cast<double>(counts[bucket]);
    if (up_to > 0 && up_to >= quantile * all) return end_of_bucket_seconds(bucket);
  }
  return std::nullopt;
}

Session::Session(std::unique_ptr<worker::SessionCore> core) : core_(std::move(core)) {}
Session::~Session() {
  if (!core_->is_of_this_process()) {
    // The session's threads are not in this process, and its connections are the parent's.
    static_cast<void>(core_.release());
    static_cast<void>(surroundings_.release());
    return;
  }
  core_->take_over();  // no other thread uses it any more
  if (surroundings_ != nullptr) surroundings_->on_end(core_->status(), core_->statistics());
}

absl::StatusOr<std::unique_ptr<Session>> Session::connect(const SessionOptions& options) {
  auto core = worker::SessionCore::connect(options);
  if (!core.ok()) return core.status();
  return std::unique_ptr<Session>(new Session(std::move(*core)));
}

absl::StatusOr<UntypedTable> Session::untyped_table(const TableOptions& options, ValueType type) {
  if (!core_->is_here()) return core_->elsewhere();
  absl::StatusOr<worker::TableCore*> core = core_->open_table(options, type);
  if (!core.ok()) return core.status();
  return UntypedTable(*core_, **core);
}

absl::Status Session::clock() {
  return core_->is_here() ? core_->clock() : core_->elsewhere();
}
absl::Status Session::barrier() {
  return core_->is_here() ? core_->barrier() : core_->elsewhere();
}
absl::Status Session::checkpoint(const CheckpointOptions& options, std::vector<std::byte> state) {
  if (!core_->is_here()) return core_->elsewhere();
  return core_->checkpointing().save(options, std::move(state));
}
absl::Status Session::finish_checkpoint() {
  return core_->is_here() ? core_->checkpointing().finish() : core_->elsewhere();
}
absl::StatusOr<std::optional<std::vector<std::byte>>> Session::resumed_state() {
  if (!core_->is_here()) return core_->elsewhere();
  return core_->checkpointing().resumed_state();
}
absl::Status Session::limit_lead(std::uint32_t clocks) {
  return core_->is_here() ? core_->limit_lead(clocks) : core_->elsewhere();
}
absl::Status Session::give_up(const absl::Status& why) {
  if (!core_->is_here()) return core_->elsewhere();
  if (surroundings_ != nullptr) surroundings_->on_given_up(why, core_->status().ok());
  core_->give_up(why);
  return absl::OkStatus();
}
absl::Status Session::step_aside() {
  return core_->is_here() ? core_->step_aside() : core_->elsewhere();
}
void Session::report(const IterationReport& iteration) {
  if (core_->is_here() && surroundings_ != nullptr)
    surroundings_->on_iteration(iteration, [this] { return core_->statistics(); });
}
absl::Status Session::poll() {
  return core_->is_here() ? core_->look_around() : core_->elsewhere();
}
void Session::take_over() {
  core_->take_over();
}
bool Session::is_catching_up() const {
  return core_->is_catching_up();
}

std::int64_t Session::current_clock() const {
  return core_->current_clock();
}
std::uint32_t Session::rank() const {
  return core_->options().rank;
}
std::uint32_t Session::workers() const {
  return core_->options().workers;
}
std::uint32_t Session::servers() const {
  return static_cast<std::uint32_t>(core_->options().servers.size());
}
SessionStatistics Session::statistics() const {
  return core_->statistics();
}

}  // namespace verbena
