#include "python/bindings/records.hpp"

#include <pybind11/stl.h>

namespace verbena::python {

namespace py = pybind11;

py::dict staleness_record(const StalenessHistogram& staleness) {
  py::dict record;
  record["reads_by_lag"] = staleness.reads_by_lag;
  record["mean_clock_differential"] = staleness.mean_clock_differential();
  return record;
}

py::dict statistics_record(const SessionStatistics& statistics) {
  py::dict record;
  const auto add = [&record](const char* name, auto value) { record[name] = value; };
  add("waited_seconds", statistics.waited_seconds);
  add("rows_pulled", statistics.rows_pulled);
  add("rows_gathered", statistics.rows_gathered);
  add("rows_pushed", statistics.rows_pushed);
  add("rows_eagerly_received", statistics.rows_eagerly_received);
  add("rows_shipped", statistics.rows_shipped);
  add("rows_kept_back", statistics.rows_kept_back);
  add("update_bytes", statistics.update_bytes);
  add("filter_seconds", statistics.filter_seconds);
  add("rows_shipped_ahead", statistics.rows_shipped_ahead);
  add("value_bound_waits", statistics.value_bound_waits);
  add("value_bound_waited_seconds", statistics.value_bound_waited_seconds);
  add("rows_pulled_locally", statistics.rows_pulled_locally);
  add("rows_pulled_remotely", statistics.rows_pulled_remotely);
  add("rows_pushed_locally", statistics.rows_pushed_locally);
  add("rows_pushed_remotely", statistics.rows_pushed_remotely);
  add("rows_localized", statistics.rows_localized);
  add("rows_restored", statistics.rows_restored);
  add("locations_asked", statistics.locations_asked);
  add("rows_moved_by_intent", statistics.rows_moved_by_intent);
  add("rows_replicated", statistics.rows_replicated);
  add("rows_refreshed", statistics.rows_refreshed);
  add("rows_pulled_from_replicas", statistics.rows_pulled_from_replicas);
  add("rows_pushed_to_replicas", statistics.rows_pushed_to_replicas);
  add("requests_posted", statistics.requests_posted);
  add("bytes_posted", statistics.bytes_posted);
  add("doorbells_rung", statistics.doorbells_rung);
  record["staleness"] = staleness_record(statistics.staleness);
  py::dict moves;
  constexpr double kMedian = 0.5;
  constexpr double kNearlyAll = 0.99;
  moves["median_seconds"] = statistics.move_times.quantile_seconds(kMedian);
  moves["p99_seconds"] = statistics.move_times.quantile_seconds(kNearlyAll);
  record["move_times"] = moves;
  return record;
}

py::dict memory_record(const TableMemory& memory) {
  py::dict record;
  record["rows"] = memory.rows;
  record["rows_waiting"] = memory.rows_waiting;
  record["rows_free"] = memory.rows_free;
  record["value_bytes"] = memory.value_bytes;
  record["state_bytes"] = memory.state_bytes;
  record["book_bytes"] = memory.book_bytes;
  record["index_bytes"] = memory.index_bytes;
  record["count_bytes"] = memory.count_bytes;
  record["refused"] = memory.refused;
  record["bytes"] = memory.bytes();
  return record;
}

py::object checkpoint_record(const CheckpointSummary& summary, const std::vector<std::string>& damaged) {
  return py::module_::import("verbena._records")
      .attr("CheckpointSummary")(summary.clock, summary.path, summary.written, summary.workers,
                                 summary.servers, summary.notes, py::tuple(py::cast(damaged)));
}

}  // namespace verbena::python
