#include "worker/options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/return_if_error.hpp"
#include "consistency/model.hpp"
#include "consistency/rules.hpp"
#include "protocol/filter_rule.hpp"
#include "protocol/messages.hpp"
#include "protocol/push_encoding.hpp"
#include "transport/heartbeat.hpp"
#include "worker/table_core.hpp"

namespace verbena::worker {

namespace {

bool is_sparse(const TableOptions& options) {
  return options.key_space == KeySpace::kSparse;
}

}  // namespace

protocol::OpenTable to_wire(std::uint32_t number, const TableOptions& options, ValueType type) {
  return {.table = number,
          .value_type = type,
          .key_space = options.key_space,
          .rows = is_sparse(options) ? std::clamp<std::uint64_t>(options.expected_rows, 1, protocol::kMaxRows)
                                     : options.rows,
          .width = options.width,
          .name = options.name,
          .allocation = options.allocation,
          .consistency = to_string(options.consistency),
          .rule = options.rule,
          .initial = options.initial,
          .seed = options.seed,
          .admission = options.admission,
          .eviction = options.eviction};
}

absl::StatusOr<TableOptions> from_wire(const protocol::OpenTable& open) {
  const absl::StatusOr<ConsistencyModel> model = parse_consistency(open.consistency);
  if (!model.ok()) return model.status();
  const bool is_sparse = open.key_space == KeySpace::kSparse;
  TableOptions options;
  options.name = open.name;
  options.key_space = open.key_space;
  options.rows = is_sparse ? 0 : open.rows;
  options.width = open.width;
  options.consistency = *model;
  options.allocation = open.allocation;
  options.rule = open.rule;
  options.expected_rows = is_sparse ? open.rows : 0;
  options.initial = open.initial;
  options.seed = open.seed;
  options.admission = open.admission;
  options.eviction = open.eviction;
  return options;
}

absl::Status check_same(const TableCore& table, const TableOptions& options, ValueType type) {
  std::string differences = protocol::differences(
      to_wire(table.number(), table.options(), table.value_type()), to_wire(table.number(), options, type));
  if (table.options().cache_rows != options.cache_rows) {
    differences += fmt::format("{}{} rows cached, then {}", differences.empty() ? "" : "; ",
                               table.options().cache_rows, options.cache_rows);
  }
  if (table.options().filter != options.filter) {
    differences += fmt::format("{}filter {}, then {}", differences.empty() ? "" : "; ",
                               table.options().filter, options.filter);
  }
  if (table.options().encoding != options.encoding) {
    differences += fmt::format("{}encoding {}, then {}", differences.empty() ? "" : "; ",
                               table.options().encoding, options.encoding);
  }
  if (differences.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("table \"{}\" is open already, and differs: {}", options.name, differences));
}

absl::Status check(const SessionOptions& options) {
  if (options.servers.empty()) return absl::InvalidArgumentError("a session needs at least one server");
  if (options.workers == 0 || options.workers > protocol::kMaxWorkers || options.rank >= options.workers) {
    return absl::InvalidArgumentError(fmt::format("worker {} of {}: expected 0 ≤ rank < workers ≤ {}",
                                                  options.rank, options.workers, protocol::kMaxWorkers));
  }
  if (options.node && *options.node >= options.servers.size()) {
    return absl::InvalidArgumentError(
        fmt::format("node {} of {}: a node is the rank of a server", *options.node, options.servers.size()));
  }
  RETURN_IF_ERROR(transport::check_silence_timeout(options.silence_timeout_ms));
  if (!(options.update_budget_mb_per_s >= 0) || !std::isfinite(options.update_budget_mb_per_s)) {
    return absl::InvalidArgumentError(
        fmt::format("an update budget of {} MB/s: expected 0 or more", options.update_budget_mb_per_s));
  }
  for (const std::size_t bytes : {options.inbox_bytes, options.push_ring_bytes}) {
    if (bytes < protocol::kMinRingBytes || bytes > protocol::kMaxRingBytes) {
      return absl::InvalidArgumentError(fmt::format("a ring of {} bytes: expected {} to {}", bytes,
                                                    protocol::kMinRingBytes, protocol::kMaxRingBytes));
    }
  }
  return absl::OkStatus();
}

absl::Status check(const TableOptions& options, ValueType type) {
  if (value_bytes(type) == 0) {
    return absl::InvalidArgumentError(
        fmt::format("table \"{}\": {} is no type of values", options.name, static_cast<std::uint32_t>(type)));
  }
  if (absl::Status status = consistency::check(options.consistency); !status.ok()) {
    return absl::InvalidArgumentError(
        fmt::format("table \"{}\": {}", options.name, std::string(status.message())));
  }
  if (options.name.empty() || options.name.size() > protocol::kMaxNameBytes) {
    return absl::InvalidArgumentError(
        fmt::format("a table's name has 1 to {} bytes", protocol::kMaxNameBytes));
  }
  if (options.key_space > KeySpace::kSparse) {
    return absl::InvalidArgumentError(fmt::format("table \"{}\": {} is no key space", options.name,
                                                  static_cast<std::uint32_t>(options.key_space)));
  }
  if (is_sparse(options) && options.rows != 0) {
    return absl::InvalidArgumentError(
        fmt::format("table \"{}\" is sparse: it has no number of rows, but expected_rows", options.name));
  }
  if (!is_sparse(options) && options.expected_rows != 0) {
    return absl::InvalidArgumentError(
        fmt::format("table \"{}\" is dense: it has rows, not expected_rows", options.name));
  }
  const bool has_wrong_rows = !is_sparse(options) && (options.rows == 0 || options.rows > protocol::kMaxRows);
  if (has_wrong_rows || options.width == 0 || options.width > protocol::kMaxWidth) {
    return absl::InvalidArgumentError(
        fmt::format("table \"{}\" of {} rows, width {}: expected 1 to {} rows and width 1 to {}",
                    options.name, options.rows, options.width, protocol::kMaxRows, protocol::kMaxWidth));
  }
  const consistency::Rules rules = consistency::rules_of(options.consistency);
  const absl::StatusOr<protocol::FilterRule> filter = protocol::FilterRule::find(options.filter);
  if (!filter.ok()) {
    return absl::InvalidArgumentError(
        fmt::format("table \"{}\": {}", options.name, std::string(filter.status().message())));
  }
  if (!filter->sends_all() &&
      (rules.acknowledges_at_once() || rules.weighs_means || options.allocation == Allocation::kDynamic)) {
    return absl::InvalidArgumentError(
        fmt::format("table \"{}\": a filter keeps updates back, and a dynamic table, or one under {}, sends "
                    "them at once or weighs those of a clock",
                    options.name, to_string(options.consistency)));
  }
  const absl::StatusOr<protocol::PushEncoding> encoding = protocol::PushEncoding::find(options.encoding);
  if (!encoding.ok()) {
    return absl::InvalidArgumentError(
        fmt::format("table \"{}\": {}", options.name, std::string(encoding.status().message())));
  }
  if (encoding->kind == protocol::PushEncoding::Kind::kPacked && options.allocation == Allocation::kDynamic) {
    return absl::InvalidArgumentError(
        fmt::format("table \"{}\": updates of a dynamic table travel as records", options.name));
  }
  const absl::StatusOr<protocol::UpdateRule> rule = protocol::check_together(
      to_wire(0, options, type), {.sums = rules.needs_sums(),
                                  .fractions = rules.weighs_means,
                                  .bounds_lead = !rules.acknowledges_at_once() && !rules.lets_workers_drift(),
                                  .rows_stay = !consistency::allows_moving_rows(options.consistency)});
  if (!rule.ok()) return rule.status();
  if (filter->rounding != protocol::FilterRule::Rounding::kNone &&
      (is_whole(type) || !rule->sums_updates())) {
    return absl::InvalidArgumentError(
        fmt::format("table \"{}\": a filter that rounds keeps back what values lose, and there are no such "
                    "values of {} with rule {}",
                    options.name, name_of(type), options.rule));
  }
  return absl::OkStatus();
}

}  // namespace verbena::worker
