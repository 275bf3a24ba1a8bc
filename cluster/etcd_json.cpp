#include "cluster/etcd_json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <variant>

#include "absl/strings/escaping.h"
#include "base/decimal.hpp"
#include "base/printable.hpp"

namespace verbena::cluster {
namespace {

using nlohmann::json;

constexpr std::size_t kShownBytes = 200;  // of what cannot be understood
constexpr int kMostDepth = 16;
constexpr std::uint64_t kMostTtlSeconds = 1'000'000'000;  // which fit into a Duration

// gRPC's codes, which are also Abseil's.
constexpr int kInvalidArgument = 3;
constexpr int kNotFound = 5;
constexpr int kPermissionDenied = 7;
constexpr int kResourceExhausted = 8;
constexpr int kUnauthenticated = 16;
static_assert(kUnauthenticated == static_cast<int>(absl::StatusCode::kUnauthenticated));

std::string base64(std::string_view bytes) {
  return absl::Base64Escape({bytes.data(), bytes.size()});
}

std::string text_of(std::uint64_t number) {
  return fmt::format("{}", number);
}

/// The first key that does not begin with `prefix` any more, but is greater; "\0" is etcd's for "no end".
std::string end_of_prefix(std::string_view prefix) {
  while (prefix.ends_with('\xff')) prefix.remove_suffix(1);
  if (prefix.empty()) return {'\0'};
  std::string end(prefix);
  end.back() = static_cast<char>(static_cast<unsigned char>(end.back()) + 1);
  return end;
}

EtcdPost post_of(const KeyRange& range) {
  json body = {{"key", base64(range.key)}};
  if (range.is_prefix) body["range_end"] = base64(end_of_prefix(range.key));
  return {"/v3/kv/range", body.dump()};
}
EtcdPost post_of(const Transaction& transaction) {
  json compare = json::array();
  for (const Condition& each : transaction.conditions) {
    const bool created = each.of == Condition::Of::kCreated;
    compare.push_back({{"key", base64(each.key)},
                       {"result", "EQUAL"},
                       {"target", created ? "CREATE" : "MOD"},
                       {created ? "create_revision" : "mod_revision", text_of(each.is)}});
  }
  json success = json::array();
  for (const Put& each : transaction.puts) {
    json put = {{"key", base64(each.key)}, {"value", base64(each.value)}};
    if (each.lease != kNoLease) put["lease"] = text_of(each.lease);
    success.push_back({{"request_put", std::move(put)}});
  }
  for (const std::string& key : transaction.deletes)
    success.push_back({{"request_delete_range", {{"key", base64(key)}}}});
  return {"/v3/kv/txn", json{{"compare", std::move(compare)}, {"success", std::move(success)}}.dump()};
}
EtcdPost post_of(const GrantLease& grant) {
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(grant.ttl).count();
  return {"/v3/lease/grant", json{{"TTL", text_of(static_cast<std::uint64_t>(seconds))}}.dump()};
}
EtcdPost post_of(const KeepLease& keep) {
  return {"/v3/lease/keepalive", json{{"ID", text_of(keep.id)}}.dump()};
}
EtcdPost post_of(const RevokeLease& revoke) {
  return {"/v3/lease/revoke", json{{"ID", text_of(revoke.id)}}.dump()};
}

/// A value in what etcd has said. What is not there is empty; what is of another kind than it should be is
/// noted, and makes the whole nonsense.
class Said {
 public:
  explicit Said(std::string_view text)
      : parsed_(json::parse(
            text,
            [](int depth, json::parse_event_t /*event*/, json& /*value*/) { return depth < kMostDepth; },
            /*allow_exceptions=*/false)) {
    if (!parsed_.is_object()) good_ = false;
  }

  [[nodiscard]] const json& root() const { return parsed_; }
  [[nodiscard]] bool good() const { return good_; }

  /// nullptr: it is not there.
  const json* find(const json& in, const char* name) {
    if (!in.is_object()) {
      good_ = false;
      return nullptr;
    }
    const auto found = in.find(name);
    return found == in.end() || found->is_null() ? nullptr : &*found;
  }
  std::uint64_t number(const json& in, const char* name) {
    const json* const value = find(in, name);
    if (value == nullptr) return 0;
    if (value->is_number_unsigned()) return value->get<std::uint64_t>();
    const std::optional<std::uint64_t> number =
        value->is_string() ? base::parse_decimal<std::uint64_t>(value->get_ref<const std::string&>())
                           : std::nullopt;
    if (!number) good_ = false;
    return number.value_or(0);
  }
  std::string text(const json& in, const char* name) {
    const json* const value = find(in, name);
    if (value == nullptr) return "";
    if (value->is_string()) return value->get<std::string>();
    good_ = false;
    return "";
  }
  std::string bytes(const json& in, const char* name) {
    std::string decoded;
    if (!absl::Base64Unescape(text(in, name), &decoded)) good_ = false;
    return decoded;
  }
  bool flag(const json& in, const char* name) {
    const json* const value = find(in, name);
    if (value != nullptr && !value->is_boolean()) good_ = false;
    return value != nullptr && value->is_boolean() && value->get<bool>();
  }
  /// Calls visit(element) for each element of a list.
  template <class Visit>
  void for_each(const json& in, const char* name, const Visit& visit) {
    const json* const value = find(in, name);
    if (value == nullptr) return;
    if (!value->is_array()) good_ = false;
    if (value->is_array()) {
      for (const json& each : *value) visit(each);
    }
  }
  Revision revision(const json& in) {
    const json* const header = find(in, "header");
    const Revision revision = header == nullptr ? 0 : number(*header, "revision");
    if (revision == 0) good_ = false;
    return revision;
  }
  Entry entry(const json& in) {
    Entry entry{.key = bytes(in, "key"),
                .value = bytes(in, "value"),
                .created = number(in, "create_revision"),
                .modified = number(in, "mod_revision"),
                .lease = number(in, "lease")};
    if (entry.key.empty() || entry.modified == 0 || entry.created > entry.modified) good_ = false;
    return entry;
  }

 private:
  const json parsed_;
  bool good_ = true;
};

absl::Status no_words_of_etcd(std::string_view said) {
  return absl::UnavailableError(fmt::format("it says what etcd does not say: {}{}",
                                            base::printable(said.substr(0, kShownBytes)),
                                            said.size() > kShownBytes ? "…" : ""));
}

absl::Status error_of(std::uint64_t code, std::string message) {
  message = base::printable(message.substr(0, kShownBytes));
  // With authentication switched on, who does not say who he is hears this, and who has said it before users
  // were changed.
  for (const char* const text : {"user name is empty", "revision of auth store is old"}) {
    if (message.find(text) != std::string::npos) code = kUnauthenticated;
  }
  switch (code) {
    case kInvalidArgument:
    case kNotFound:
    case kPermissionDenied:
    case kResourceExhausted:
    case kUnauthenticated:
      return {static_cast<absl::StatusCode>(code), message};
    default:
      return absl::UnavailableError(message);
  }
}

/// What stands in an answer that is no success.
absl::Status decode_error(long http_status, std::string_view body) {
  Said said(body);
  if (!said.good()) {
    return absl::UnavailableError(
        fmt::format("HTTP status {}: {}", http_status, base::printable(body.substr(0, kShownBytes))));
  }
  // Of a stream it is an object.
  const json* const error = said.find(said.root(), "error");
  if (error != nullptr && error->is_object())
    return error_of(said.number(*error, "grpc_code"), said.text(*error, "message"));
  std::string message = said.text(said.root(), "error");
  const std::uint64_t code = said.number(said.root(), "code");
  if (!said.good() || message.empty()) return no_words_of_etcd(body);
  return error_of(code, std::move(message));
}

/// nullopt: it lacks what it must have.
std::optional<Answer> answer_to(const KeyRange& range, Said& said) {
  Snapshot snapshot{.revision = said.revision(said.root()), .entries = {}};
  bool holds = !said.flag(said.root(), "more");
  said.for_each(said.root(), "kvs", [&](const json& each) {
    const Entry& entry = snapshot.entries.emplace_back(said.entry(each));
    const std::size_t count = snapshot.entries.size();
    holds = holds && range.holds(entry.key) && entry.created > 0 && entry.modified <= snapshot.revision &&
            (count < 2 || snapshot.entries[count - 2].key < entry.key);
  });
  return holds ? std::optional<Answer>(std::move(snapshot)) : std::nullopt;
}
std::optional<Answer> answer_to(const Transaction& /*transaction*/, Said& said) {
  return TransactionResult{.succeeded = said.flag(said.root(), "succeeded"),
                           .revision = said.revision(said.root())};
}
std::optional<Answer> lease_in(Said& said, const json& in) {
  const std::uint64_t seconds = std::min(said.number(in, "TTL"), kMostTtlSeconds);
  const Lease lease{.id = said.number(in, "ID"),
                    .ttl = std::chrono::seconds(static_cast<std::int64_t>(seconds))};
  return lease.id == kNoLease ? std::nullopt : std::optional<Answer>(lease);
}
std::optional<Answer> answer_to(const GrantLease& grant, Said& said) {
  const std::optional<Answer> answer = lease_in(said, said.root());
  return answer && std::get<Lease>(*answer).ttl >= grant.ttl ? answer : std::nullopt;
}
std::optional<Answer> answer_to(const KeepLease& /*keep*/, Said& said) {
  // A stream's answer.
  const json* const result = said.find(said.root(), "result");
  return result == nullptr ? std::nullopt : lease_in(said, *result);
}
std::optional<Answer> answer_to(const RevokeLease& /*revoke*/, Said& said) {
  return said.revision(said.root()) > 0 ? std::optional<Answer>(Revoked{}) : std::nullopt;
}

}  // namespace

EtcdPost etcd_post(const Request& request) {
  return std::visit([](const auto& each) { return post_of(each); }, request);
}

EtcdPost etcd_watch_post(std::string_view prefix, Revision from) {
  const json create = {{"key", base64(prefix)},
                       {"range_end", base64(end_of_prefix(prefix))},
                       {"start_revision", text_of(from)}};
  return {"/v3/watch", json{{"create_request", create}}.dump()};
}

EtcdPost etcd_login_post(std::string_view user, std::string_view password) {
  const json body = {{"name", user}, {"password", password}};
  return {"/v3/auth/authenticate", body.dump(-1, ' ', false, json::error_handler_t::replace)};
}

absl::StatusOr<Answer> decode_etcd_answer(const Request& request, long http_status, std::string_view body) {
  if (http_status != kHttpOk) {
    absl::Status error = decode_error(http_status, body);
    if (absl::IsNotFound(error) && std::holds_alternative<RevokeLease>(request)) return Revoked{};
    return error;
  }
  Said said(body);
  if (said.good() && said.find(said.root(), "error") != nullptr) return decode_error(http_status, body);
  if (!said.good()) return no_words_of_etcd(body);
  std::optional<Answer> answer = std::visit([&](const auto& each) { return answer_to(each, said); }, request);
  if (!answer || !said.good()) return no_words_of_etcd(body);
  if (const auto* lease = std::get_if<Lease>(&*answer); lease != nullptr && lease->ttl == Duration::zero())
    return absl::NotFoundError(fmt::format("etcd has no lease {} (any more)", lease->id));
  return *std::move(answer);
}

absl::StatusOr<std::vector<Event>> decode_etcd_watch_line(std::string_view line) {
  Said said(line);
  const json* const result = said.good() ? said.find(said.root(), "result") : nullptr;
  if (result == nullptr) {
    absl::Status error = decode_error(kHttpOk, line);
    // To a watcher all of them mean the same.
    return absl::IsUnauthenticated(error) ? error : absl::UnavailableError(error.message());
  }
  const Revision compacted = said.number(*result, "compact_revision");
  const std::string reason = base::printable(said.text(*result, "cancel_reason").substr(0, kShownBytes));
  if (compacted > 0) {
    return absl::OutOfRangeError(fmt::format("etcd has forgotten the changes before revision {}", compacted));
  }
  if (said.flag(*result, "canceled"))
    return absl::UnavailableError(fmt::format("etcd has ended the watch: {}", reason));
  std::vector<Event> events;
  bool in_order = true;
  said.for_each(*result, "events", [&](const json& each) {
    const std::string type = said.text(each, "type");
    const json* const entry = said.find(each, "kv");
    if (entry == nullptr || !(type.empty() || type == "PUT" || type == "DELETE")) {
      in_order = false;
      return;
    }
    const Revision before = events.empty() ? 0 : events.back().entry.modified;
    events.push_back({.is_delete = type == "DELETE", .entry = said.entry(*entry)});
    in_order = in_order && events.back().entry.modified >= before;
  });
  if (!said.good() || !in_order) return no_words_of_etcd(line);
  return events;
}

absl::StatusOr<std::string> decode_etcd_login(long http_status, std::string_view body) {
  if (http_status != kHttpOk) return decode_error(http_status, body);
  Said said(body);
  std::string token = said.good() ? said.text(said.root(), "token") : "";
  // It becomes a line of a header.
  if (token.empty() || base::printable(token) != token) return no_words_of_etcd("no token");
  return token;
}

}  // namespace verbena::cluster
