#include "worker/table_core.hpp"

#include <fmt/format.h>

#include "base/return_if_error.hpp"
#include "consistency/model.hpp"
#include "worker/fixed/fixed_table.hpp"
#include "worker/moving/moving_table.hpp"

namespace verbena::worker {
namespace {

constexpr std::size_t kHistogramBins = 64;

}  // namespace

std::unique_ptr<TableCore> make_table_core(SessionCore& session, std::uint32_t number,
                                           const TableOptions& options, ValueType type) {
  if (options.allocation == Allocation::kDynamic)
    return std::make_unique<MovingTable>(session, number, options, type);
  return make_fixed_table(session, number, options, type);
}

TableCore::TableCore(SessionCore& session, std::uint32_t number, const TableOptions& options, ValueType type)
    : session_(session),
      number_(number),
      options_(options),
      keys_end_(options.key_space == KeySpace::kSparse ? kNoKey : options.rows),
      layout_(protocol::UpdateRule::find(options.rule, type, options.width).value()),
      rules_(
          consistency::rules_of(options.consistency).with_one_step(layout_.rule.takes_one_step_a_clock())) {
  staleness_.reads_by_lag.resize(kHistogramBins);
}

absl::Status TableCore::check(const Keys& keys, std::size_t values) const {
  // If a range ends before it begins, its size may be any number.
  if (keys.is_range() && (keys.size() > keys_end_ || (keys.size() > 0 && keys[0] >= keys_end_))) {
    return absl::InvalidArgumentError(
        fmt::format("table \"{}\" has {} rows: no range starts at {} and ends at {}", options_.name,
                    keys_end_, keys[0], keys[0] + keys.size()));
  }
  if (values != keys.size() * options_.width) {
    return absl::InvalidArgumentError(fmt::format("table \"{}\": {} keys of width {} need {} values, not {}",
                                                  options_.name, keys.size(), options_.width,
                                                  keys.size() * options_.width, values));
  }
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (keys.is_range()) i = keys.size() - 1;  // of a range, the last key decides
    if (keys[i] >= keys_end_ && keys_end_ == kNoKey) {
      return absl::InvalidArgumentError(
          fmt::format("table \"{}\": no row has the key {}, kNoKey", options_.name, kNoKey));
    }
    if (keys[i] >= keys_end_) {
      const auto with_sign = static_cast<std::int64_t>(keys[i]);
      return absl::InvalidArgumentError(
          fmt::format("table \"{}\" has keys below {}, not {}{}", options_.name, keys_end_, keys[i],
                      with_sign < 0 ? fmt::format(", which is {} if it has a sign", with_sign) : ""));
    }
  }
  return absl::OkStatus();
}

absl::Status TableCore::check_ready(const Keys& keys, std::size_t values) const {
  if (!session_.status().ok()) return session_.status();
  return check(keys, values);
}

absl::Status TableCore::enter(const Keys& keys, std::size_t values) {
  if (!session_.is_here()) return session_.elsewhere();
  session_.poll_sometimes(keys.size());
  return check_ready(keys, values);
}

absl::StatusOr<std::shared_ptr<Operation>> TableCore::start_pull(const Keys& keys, std::byte* out,
                                                                 std::size_t values, Operations after) {
  if (!session_.is_here()) return session_.elsewhere();
  RETURN_IF_ERROR(check_ready(keys, values));
  session_.counters().rows_pulled += keys.size();
  std::shared_ptr<Operation> pull = make_pull(keys, 0, out);
  pull->after = std::move(after);
  session_.start(pull);
  return pull;
}

absl::Status TableCore::pull_rest(const Keys& keys, std::byte* out, std::size_t next) {
  const std::shared_ptr<Operation> pull = make_pull(keys, next, out);
  session_.start(pull);
  return session_.wait_for(*pull);
}

absl::Status TableCore::refuse_as_dense() {
  RETURN_IF_ERROR(enter(KeyRange{}, 0));
  return absl::FailedPreconditionError(
      fmt::format("table \"{}\" is dense: its rows are pulled by their keys", options_.name));
}

absl::StatusOr<RowHandles> TableCore::locate(const Keys& /*keys*/) {
  return refuse_as_dense();
}

absl::Status TableCore::pull_located(RowHandles& /*rows*/, std::byte* /*out*/, std::size_t /*values*/) {
  return refuse_as_dense();
}

absl::Status TableCore::scan(KeyRange /*range*/,
                             absl::FunctionRef<absl::Status(Key, const std::byte*)> /*use*/) {
  return refuse_as_dense();
}

absl::StatusOr<std::shared_ptr<Operation>> TableCore::start_call(std::string_view /*function*/,
                                                                 const Keys& /*keys*/,
                                                                 std::span<const double> /*numbers*/,
                                                                 bool /*wait*/) {
  RETURN_IF_ERROR(enter(KeyRange{}, 0));
  return absl::FailedPreconditionError(
      fmt::format("table \"{}\" is dynamic: server functions are for static ones", options_.name));
}

// ---- for static tables

/// `distinction`: what only rows of a dynamic table can do.
absl::Status TableCore::refuse_as_static(const Keys& keys, std::size_t values, std::string_view distinction) {
  RETURN_IF_ERROR(enter(keys, values));
  return absl::FailedPreconditionError(
      fmt::format("table \"{}\" is static: only rows of a dynamic one {}", options_.name, distinction));
}

absl::StatusOr<std::shared_ptr<Operation>> TableCore::start_localize(const Keys& keys,
                                                                     const Operations& /*after*/) {
  return refuse_as_static(keys, keys.size() * options_.width, "can be localized");
}

absl::Status TableCore::intend(const Keys& keys, consistency::Clock /*from*/, consistency::Clock /*to*/) {
  return refuse_as_static(keys, keys.size() * options_.width, "follow intents");
}

absl::StatusOr<std::size_t> TableCore::hold(const Keys& keys, std::size_t rows,
                                            absl::FunctionRef<void(std::size_t, std::byte*)> /*use*/) {
  return refuse_as_static(keys, rows * options_.width, "can be held");
}

std::size_t TableCore::redraw(std::span<Key> /*keys*/, double /*preference*/,
                              const KeyDistribution& /*distribution*/, std::mt19937_64& /*random*/) const {
  return 0;
}

bool TableCore::has_keys_of(std::uint32_t server) const {
  return session_.placement().table(options_.rows).keys(server).size() > 0;
}

absl::Status TableCore::on_rows(ServerLink& /*link*/, const protocol::BulkMessage& message) {
  return absl::InvalidArgumentError(fmt::format("sent rows of table {}", message.header.table));
}

absl::Status TableCore::on_result(ServerLink& /*link*/, const protocol::BulkMessage& message) {
  return absl::InvalidArgumentError(fmt::format("answered a call for table {}", message.header.table));
}

absl::Status TableCore::on_gone(ServerLink& /*link*/, const protocol::BulkMessage& message) {
  return absl::InvalidArgumentError(
      fmt::format("says that rows of table {} are gone, which is not sparse", message.header.table));
}

absl::Status TableCore::on_server_back(ServerLink& /*link*/, const transport::RemoteDescriptor& /*shard*/) {
  return absl::UnimplementedError(
      fmt::format("has table \"{}\", which is dynamic: there are no copies of its rows", options_.name));
}

absl::Status TableCore::on_region(ServerLink& /*link*/, const protocol::RegionAdded& added) {
  return absl::InvalidArgumentError(fmt::format("added a region to table {}", added.table));
}

absl::Status TableCore::on_answers(ServerLink& /*link*/, const protocol::KeyAnswers& answers) {
  return absl::InvalidArgumentError(fmt::format("told where rows of table {} are", answers.table));
}

absl::Status TableCore::on_push_answer(ServerLink& /*link*/, const protocol::PushAnswer& answer) {
  return absl::InvalidArgumentError(fmt::format("answered a push to table {}", answer.table));
}

absl::Status TableCore::on_install_answer(ServerLink& /*link*/, const protocol::InstallAnswer& answer) {
  return absl::InvalidArgumentError(fmt::format("answered an install into table {}", answer.table));
}

absl::Status TableCore::on_census(ServerLink& /*link*/, const protocol::Census& census) {
  return absl::InvalidArgumentError(
      fmt::format("wants to know who owns rows of table {}, which do not move", census.table));
}

}  // namespace verbena::worker
