#include "worker/session.hpp"

#include <algorithm>

#include "worker/session_core.hpp"
#include "worker/table.hpp"

namespace verbena {

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

Session::Session(std::unique_ptr<worker::SessionCore> core) : core_(std::move(core)) {}
Session::~Session() = default;

absl::StatusOr<std::unique_ptr<Session>> Session::connect(const SessionOptions& options) {
  auto core = worker::SessionCore::connect(options);
  if (!core.ok()) return core.status();
  return std::unique_ptr<Session>(new Session(std::move(*core)));
}

template <class Value>
absl::StatusOr<Table<Value>*> Session::table(const TableOptions& options) {
  absl::StatusOr<worker::TableCore*> core = core_->open_table(options, protocol::value_type_of<Value>());
  if (!core.ok()) return core.status();
  std::shared_ptr<Table<Value>> table(new Table<Value>(*core_, **core));
  tables_.push_back(table);
  return table.get();
}

template absl::StatusOr<Table<float>*> Session::table(const TableOptions&);
template absl::StatusOr<Table<double>*> Session::table(const TableOptions&);
template absl::StatusOr<Table<std::int32_t>*> Session::table(const TableOptions&);
template absl::StatusOr<Table<std::int64_t>*> Session::table(const TableOptions&);

absl::Status Session::clock() {
  return core_->clock();
}
absl::Status Session::barrier() {
  return core_->barrier();
}
void Session::give_up(const absl::Status& why) {
  core_->give_up(why);
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
SessionStatistics Session::statistics() const {
  return core_->statistics();
}

}  // namespace verbena
