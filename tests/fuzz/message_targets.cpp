// Messages and lines from other processes.
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <variant>

#include "apps/bench/messages.hpp"
#include "apps/bench/perftest.hpp"
#include "apps/monitoring/http_server.hpp"
#include "base/compression.hpp"
#include "consistency/model.hpp"
#include "job/child_message.hpp"
#include "protocol/log_record.hpp"
#include "protocol/messages.hpp"
#include "protocol/packed_updates.hpp"
#include "protocol/server_function.hpp"
#include "tests/fuzz/target.hpp"
#include "transport/verbs/address.hpp"

namespace verbena::fuzz {
namespace {

std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

/// Puts in the current version, so that the inputs in corpus/ stay useful when the version changes.
std::string of_version(std::string_view bytes, std::uint32_t version) {
  constexpr std::size_t kAt = 4;
  std::string own(bytes);
  if (own.size() >= kAt + sizeof version) std::memcpy(own.data() + kAt, &version, sizeof version);
  return own;
}

/// What protocol/messages.hpp promises of a message that was accepted.
struct PossibleFields {
  void operator()(const protocol::Hello& hello) const {
    require(hello.worker < hello.workers && hello.workers <= protocol::kMaxWorkers, "worker");
    require(hello.server < hello.servers && hello.node < hello.servers, "server");
  }
  void operator()(const protocol::Welcome& welcome) const {
    require(welcome.lanes >= 1 && welcome.lanes <= protocol::kMaxLanes, "lanes");
  }
  void operator()(const protocol::OpenTable& open) const {
    require(value_bytes(open.value_type) != 0, "value type");
    require(open.rows >= 1 && open.rows <= protocol::kMaxRows, "rows");
    require(open.width >= 1 && open.width <= protocol::kMaxWidth, "width");
    require(open.name.size() <= protocol::kMaxNameBytes, "name");
    require(open.allocation <= Allocation::kDynamic, "allocation");
  }
  void operator()(const protocol::Failed& failed) const {
    require(failed.code != 0 && failed.reason.size() <= protocol::kMaxReasonBytes, "reason");
  }
  void operator()(const protocol::EndIteration& end) const { require(end.clock >= 0, "clock"); }
  void operator()(const protocol::KeyRequests& requests) const {
    using Kind = protocol::KeyRequests::Kind;
    require(requests.kind >= Kind::kLocate && requests.kind <= Kind::kFind, "kind");
    require(!requests.rows.empty(), "no rows");
    require(requests.rows.size() <= protocol::MessageRoom<protocol::KeyRequests::Row>::kMaxItems, "rows");
    for (const auto& row : requests.rows) require(row.epoch <= protocol::SlotHeader::kMaxEpoch, "epoch");
  }
  void operator()(const protocol::KeyAnswers& answers) const {
    using Kind = protocol::KeyAnswers::Kind;
    require(!answers.answers.empty(), "no answers");
    require(answers.answers.size() <= protocol::MessageRoom<protocol::KeyAnswers::Answer>::kMaxItems,
            "answers");
    for (const auto& each : answers.answers) {
      require(each.kind >= Kind::kOwned && each.kind <= Kind::kHasNot, "kind");
      require(each.epoch <= protocol::SlotHeader::kMaxEpoch, "epoch");
    }
  }
  void operator()(const protocol::PushAnswer& answer) const {
    require(answer.records >= 1 && answer.records <= protocol::kMaxPushRecords, "records");
    require(std::is_sorted(answer.moved.begin(), answer.moved.end()), "order");
    require(answer.moved.empty() || answer.moved.back() < answer.records, "moved");
  }
  void operator()(const auto& /*anything*/) const {}
};

/// Reads all of it, as a server does.
void packed_updates(const protocol::BulkMessage& message) {
  static base::Decompressor decompressor;
  auto updates = protocol::PackedUpdates::read(message, ValueType::kFloat, 4, decompressor);
  if (!updates.ok()) return require_refusal(updates.status(), "packed updates in");
  require(updates->header().by_row + updates->keys() <= updates->count(), "more names than updates");
  std::uint64_t least = 0;
  for (std::uint32_t i = 0; i < updates->header().by_row; ++i) {
    const std::optional<std::uint64_t> row = updates->next_row();
    if (!row) return;
    require(*row >= least, "order of rows");
    least = *row + 1;
  }
  for (std::uint32_t i = 0; i < updates->keys(); ++i) static_cast<void>(updates->key(i));
  std::array<float, 4> values{};
  for (std::uint32_t i = 0; i < std::min(updates->count(), 1000U); ++i)
    updates->next_values(1, reinterpret_cast<std::byte*>(values.data()), sizeof values);
}

}  // namespace

void control_message(std::string_view given) {
  const std::string bytes = of_version(given, protocol::kVersion);
  const absl::StatusOr<protocol::ControlMessage> message = protocol::decode_control(as_bytes(bytes));
  if (!message.ok()) return require_refusal(message.status(), "");
  std::visit(PossibleFields(), *message);
  // What was decoded can be encoded and decoded again.
  const std::string again = protocol::encode(*message);
  require(again.size() == bytes.size(), "another length");
  const auto back = protocol::decode_control(as_bytes(again));
  require(back.ok() && protocol::encode(*back) == again, "said otherwise");
}

void bulk_message(std::string_view bytes) {
  constexpr KeyRange kRange{100, 108};
  const absl::StatusOr<protocol::BulkMessage> message = protocol::decode_bulk(as_bytes(bytes));
  if (!message.ok()) return require_refusal(message.status(), "");
  const auto end = as_bytes(bytes).data() + bytes.size();
  require(message->payload.data() + message->payload.size() == end, "payload");
  for (const std::size_t stride_bytes : {std::size_t{8}, std::size_t{16}, std::size_t{1} << 23}) {
    if (!protocol::check_records(*message, stride_bytes, kRange).ok()) continue;
    for (std::size_t i = 0; i < message->header.count; ++i) {
      const Key key = protocol::record_key(message->payload, stride_bytes, i);
      require(key >= kRange.first && key < kRange.last, "key of a record");
      require(protocol::record_values(message->payload, stride_bytes, i) + stride_bytes <= end, "values");
    }
  }
  if (protocol::check_keys(*message, kRange).ok()) {
    require(message->payload.size() == message->header.count * sizeof(Key), "keys");
    for (std::size_t i = 0; i < message->header.count; ++i) {
      const Key key = protocol::record_key(message->payload, 0, i);
      require(key >= kRange.first && key < kRange.last, "key");
    }
  }
  if (message->header.kind == protocol::BulkKind::kPackedUpdates) packed_updates(*message);
  if (const auto call = protocol::decode_call(*message); call.ok()) {
    require(call->keys.size() == message->header.count, "keys of a call");
    require(call->numbers.size() == call->keys.size() * call->numbers_a_key, "numbers of a call");
    const auto function = protocol::BoundFunction::find(
        call->text, protocol::UpdateRule(ValueType::kFloat, 2), call->numbers_a_key);
    if (!function.ok()) require_refusal(function.status(), "");
  }
  std::vector<std::uint64_t> words;
  if (protocol::take_piece(*message, words).ok()) {
    require(words.size() == message->header.count, "words of an answer");
    if (const auto answer = protocol::decode_answer(words); !answer.ok())
      require_refusal(answer.status(), "");
  }
  if (const auto counts = protocol::decode_example_counts(*message); counts.ok()) {
    require(counts->processed <= counts->planned && counts->planned <= protocol::kMaxExamples, "examples");
  }
}

void bench_message(std::string_view given) {
  using apps::bench::Message;
  const std::string bytes = of_version(given, Message::kVersion);
  const std::optional<Message> message = apps::bench::read_message(as_bytes(bytes));
  require(message.has_value() == (bytes.size() == sizeof(Message)), "length");
  if (!message) return;
  require(message->text().size() <= message->text_bytes.size(), "text");
  const auto run = apps::bench::decode_perftest(message->text());
  if (!run) return;
  const auto again = apps::bench::decode_perftest(apps::bench::encode_perftest(*run));
  require(again && again->tool == run->tool && again->bytes == run->bytes &&
              again->iterations == run->iterations && again->depth == run->depth &&
              again->connections == run->connections,
          "said otherwise");
}

void child_line(std::string_view bytes) {
  const absl::StatusOr<job::ChildMessage> message = job::decode(bytes);
  if (!message.ok()) {
    require(message.status().code() == absl::StatusCode::kInvalidArgument, message.status().ToString());
    return;
  }
  const std::string again = job::encode(*message);
  const nlohmann::json said = nlohmann::json::parse(bytes);
  const nlohmann::json understood = nlohmann::json::parse(again);
  for (const auto& [name, value] : understood.items()) {
    if (name == "code") continue;  // an unknown one becomes UNKNOWN
    require(said.contains(name) && said[name] == value, "understood otherwise");
  }
  const absl::StatusOr<job::ChildMessage> back = job::decode(again);
  require(back.ok() && job::encode(*back) == again, "said otherwise");
}

void consistency_name(std::string_view bytes) {
  const auto model = parse_consistency(bytes);
  if (!model.ok()) return require_refusal(model.status(), "expected bsp, ssp:S, essp:S");
  require(consistency::staleness(*model) <= 1'000'000, "staleness");
  const auto again = parse_consistency(to_string(*model));
  require(again.ok() && *again == *model, "said otherwise");
}

void http_request(std::string_view bytes) {
  using Outcome = apps::HttpParse::Outcome;
  constexpr std::size_t kMost = apps::HttpServer::kMostRequestBytes;
  const apps::HttpParse parsed = apps::parse_http_request(bytes);
  if (parsed.outcome == Outcome::kIncomplete)
    return require(bytes.size() < kMost, "waited for more than may come");
  if (parsed.outcome == Outcome::kRefused) return require(parsed.refusal >= 400, "refused without a reason");
  require(parsed.request.path.starts_with('/') && parsed.request.path.size() < kMost, "no path");
  require(parsed.request.path.find_first_of("? \r") == std::string::npos, "more than a path");
  const apps::HttpParse again = apps::parse_http_request(std::string(bytes) + "GET / HTTP/1.1\r\n\r\n");
  require(again.outcome == Outcome::kRequest && again.request.path == parsed.request.path &&
              again.request.host == parsed.request.host,
          "what follows a request has changed it");
}

void verbs_address(std::string_view bytes) {
  const std::string text(bytes);
  const auto address = transport::verbs::parse_address(text);
  if (!address.ok()) {
    require(address.status().code() == absl::StatusCode::kInvalidArgument, address.status().ToString());
    return;
  }
  require(text.back() >= '0' && text.back() <= '9', "more behind the port");
  require(address->host.find_first_of("[]") == std::string::npos, "brackets in a host");
  const auto again = transport::verbs::parse_address(transport::verbs::text_of(*address));
  require(again.ok() && again->host == address->host && again->port == address->port, "said otherwise");
}

void log_record(std::string_view bytes) {
  constexpr std::uint32_t kWorkers = 4;
  const absl::StatusOr<protocol::LogRecord> record = protocol::decode_log_record(as_bytes(bytes), kWorkers);
  if (!record.ok()) return require_refusal(record.status(), "a record of the log");
  const bool is_of_a_worker = record->header.kind != protocol::LogHeader::Kind::kImage;
  require(!is_of_a_worker || record->header.worker < kWorkers, "worker");
  require(record->message.size() + sizeof record->header == bytes.size(), "another length");
}

}  // namespace verbena::fuzz
