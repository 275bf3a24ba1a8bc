#include "job/child_message.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/printable.hpp"

namespace verbena::job {
namespace {

using nlohmann::json;

/// Of one of the two messages with statistics.
json counted(std::string_view kind, const auto& message) {
  json object = statistics_json(message.statistics);
  object["kind"] = kind;
  object["worker"] = message.worker;
  object["seconds"] = message.seconds;
  object["move_times"] = message.statistics.move_times.counts;
  return object;
}

struct Encoder {
  json operator()(const IterationMessage& message) const {
    return {{"kind", "iteration"},
            {"worker", message.worker},
            {"iteration", message.report.iteration},
            {"items", message.report.items},
            {"seconds", message.report.seconds},
            {"sums", message.report.sums}};
  }
  json operator()(const ProgressMessage& message) const {
    return {{"kind", "progress"},
            {"worker", message.worker},
            {"what", message.what},
            {"done", message.done},
            {"total", message.total}};
  }
  json operator()(const PrintMessage& message) const { return {{"kind", "print"}, {"line", message.line}}; }
  json operator()(const SummaryMessage& message) const {
    return {{"kind", "summary"}, {"name", message.name}, {"value", message.value}};
  }
  json operator()(const SilentWorkerMessage& message) const {
    return {{"kind", "silent worker"}, {"worker", message.worker}, {"why", message.why}};
  }
  json operator()(const StatisticsMessage& message) const { return counted("statistics", message); }
  json operator()(const FinishedMessage& message) const { return counted("finished", message); }
  json operator()(const ServedMessage& message) const {
    return {{"kind", "served"}, {"bytes_to_copies", message.bytes_to_copies}};
  }
  json operator()(const FailedMessage& message) const {
    json object = {{"kind", "failed"},
                   {"code", static_cast<int>(message.status.code())},
                   {"message", std::string(message.status.message())}};
    if (message.cause) object["cause"] = static_cast<int>(*message.cause);
    return object;
  }
  json operator()(const SignaledMessage& message) const {
    return {{"kind", "signaled"}, {"signal", message.signal}};
  }
  json operator()(const AskedToStopMessage& message) const {
    return {{"kind", "asked to stop"}, {"signal", message.signal}};
  }
  json operator()(const HeldMessage& message) const {
    return {{"kind", "held"}, {"begun", message.begun}, {"has_finished", message.has_finished}};
  }
  json operator()(const SteppedAsideMessage& /*message*/) const { return {{"kind", "stepped aside"}}; }
  json operator()(const EndedMessage& message) const {
    return {{"kind", "ended"}, {"status", message.status}};
  }
};

double number(const json& value) {
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

/// The library itself would truncate a number that does not fit.
template <class Number>
Number exact_number(const json& value) {
  if (value.is_number_unsigned() && std::in_range<Number>(value.get<std::uint64_t>()))
    return value.get<Number>();
  if (value.is_number_integer() && !value.is_number_unsigned() &&
      std::in_range<Number>(value.get<std::int64_t>())) {
    return value.get<Number>();
  }
  throw json::out_of_range::create(0, fmt::format("{} is no whole number of this range", to_text(value)),
                                   &value);
}

IterationMessage iteration(const json& object) {
  IterationMessage message;
  message.worker = exact_number<std::uint32_t>(object.at("worker"));
  message.report.iteration = exact_number<std::int64_t>(object.at("iteration"));
  message.report.items = number(object.at("items"));
  message.report.seconds = number(object.at("seconds"));
  // Accepts an object only: the library iterates over lists in the same way as over objects.
  for (const auto& [name, value] : object.at("sums").get_ref<const json::object_t&>())
    message.report.sums[name] = number(value);
  return message;
}

/// One of the two messages with statistics.
template <class Message>
Message read_counted(const json& object) {
  Message message;
  message.worker = exact_number<std::uint32_t>(object.at("worker"));
  message.seconds = number(object.at("seconds"));
  SessionStatistics& statistics = message.statistics;
  statistics.waited_seconds = number(object.at("waited_seconds"));
  statistics.value_bound_waited_seconds = number(object.at("value_bound_waited_seconds"));
  statistics.filter_seconds = number(object.at("filter_seconds"));
  const auto read_count = [&](const SessionCount& count) {
    statistics.*count.value = exact_number<std::uint64_t>(object.at(count.name));
  };
  std::for_each(kSessionCounts.begin(), kSessionCounts.end(), read_count);
  std::for_each(kDynamicRowCounts.begin(), kDynamicRowCounts.end(), read_count);
  for (const json& reads : object.at("reads_by_lag").get_ref<const json::array_t&>()) {
    statistics.staleness.reads_by_lag.push_back(exact_number<std::uint64_t>(reads));
  }
  for (const json& moves : object.at("move_times").get_ref<const json::array_t&>())
    statistics.move_times.counts.push_back(exact_number<std::uint64_t>(moves));
  return message;
}

FailedMessage failed(const json& object) {
  const int code = exact_number<int>(object.at("code"));
  const bool known = code > 0 && code <= static_cast<int>(absl::StatusCode::kUnauthenticated);
  FailedMessage message{absl::Status(known ? static_cast<absl::StatusCode>(code) : absl::StatusCode::kUnknown,
                                     object.at("message").get<std::string>())};
  if (object.contains("cause")) {
    const int cause = exact_number<int>(object.at("cause"));
    if (cause < 0 || cause >= static_cast<int>(Cause::kNone))
      throw json::out_of_range::create(0, fmt::format("{} is no cause", cause), nullptr);
    message.cause = static_cast<Cause>(cause);
  }
  return message;
}

HeldMessage held(const json& object) {
  const HeldMessage message{.begun = exact_number<std::int64_t>(object.at("begun")),
                            .has_finished = object.at("has_finished").get<bool>()};
  if (message.begun < 0)
    throw json::out_of_range::create(0, fmt::format("{} is no iteration", message.begun), nullptr);
  return message;
}

/// Throws what nlohmann throws, also for text that is nested deeper than any message of ours: the library
/// walks through parsed text recursively, and a line must not use up the stack.
json parse_text(std::string_view line) {
  static constexpr int kMostDepth = 64;
  return json::parse(line, [](int depth, json::parse_event_t /*event*/, json& /*parsed*/) {
    if (depth > kMostDepth) {
      throw json::out_of_range::create(0, fmt::format("nested deeper than {} levels", kMostDepth), nullptr);
    }
    return true;
  });
}

/// Throws what nlohmann throws.
absl::StatusOr<ChildMessage> parse(const json& object) {
  const std::string kind = object.at("kind").get<std::string>();
  if (kind == "iteration") return iteration(object);
  if (kind == "statistics") return read_counted<StatisticsMessage>(object);
  if (kind == "finished") return read_counted<FinishedMessage>(object);
  if (kind == "served") return ServedMessage{exact_number<std::uint64_t>(object.at("bytes_to_copies"))};
  if (kind == "failed") return failed(object);
  if (kind == "signaled") return SignaledMessage{exact_number<int>(object.at("signal"))};
  if (kind == "asked to stop") return AskedToStopMessage{exact_number<int>(object.at("signal"))};
  if (kind == "held") return held(object);
  if (kind == "stepped aside") return SteppedAsideMessage{};
  if (kind == "ended") return EndedMessage{exact_number<int>(object.at("status"))};
  if (kind == "print") return PrintMessage{object.at("line").get<std::string>()};
  if (kind == "summary") return SummaryMessage{object.at("name").get<std::string>(), object.at("value")};
  if (kind == "silent worker")
    return SilentWorkerMessage{exact_number<std::uint32_t>(object.at("worker")),
                               object.at("why").get<std::string>()};
  if (kind == "progress") {
    return ProgressMessage{exact_number<std::uint32_t>(object.at("worker")),
                           object.at("what").get<std::string>(), number(object.at("done")),
                           number(object.at("total"))};
  }
  return absl::InvalidArgumentError(fmt::format("not a message of a worker: unknown kind \"{}\"", kind));
}

}  // namespace

json statistics_json(const SessionStatistics& statistics) {
  json object = {{"waited_seconds", statistics.waited_seconds},
                 {"value_bound_waited_seconds", statistics.value_bound_waited_seconds},
                 {"filter_seconds", statistics.filter_seconds},
                 {"reads_by_lag", statistics.staleness.reads_by_lag}};
  for (const SessionCount& count : kSessionCounts) object[count.name] = statistics.*count.value;
  for (const SessionCount& count : kDynamicRowCounts) object[count.name] = statistics.*count.value;
  return object;
}

std::string to_text(const nlohmann::json& json, int indent) {
  return base::printable_lines(json.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace));
}

std::string to_line(const nlohmann::json& json, int indent) {
  return to_text(json, indent) + "\n";
}

std::string encode(const ChildMessage& message) {
  return to_line(std::visit(Encoder(), message));
}

absl::StatusOr<ChildMessage> decode(std::string_view line) {
  try {
    return parse(parse_text(line));
  } catch (const json::exception& error) {
    return absl::InvalidArgumentError(fmt::format("not a message of a worker: {}", error.what()));
  }
}

}  // namespace verbena::job
