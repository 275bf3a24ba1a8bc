#include "apps/report/drain_request.hpp"

#include <nlohmann/json.hpp>

#include "job/json_line.hpp"

namespace verbena::apps {
namespace {

using nlohmann::json;

constexpr const char* kServer = "server";
constexpr const char* kCopy = "copy";
constexpr const char* kDone = "done";
constexpr const char* kRefused = "refused";
constexpr std::size_t kMostRequestBytes = 16 << 10;

/// Null: it is none, or nested, which nothing of this is.
json parse(std::string_view text) {
  if (text.size() > kMostRequestBytes) return {};
  const auto is_shallow = [](int depth, json::parse_event_t, json&) { return depth <= 1; };
  json object = json::parse(text, is_shallow, /*allow_exceptions=*/false);
  return object.is_object() ? object : json();
}

std::string text_of(const json& object) {
  return object.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace

std::string encode(const DrainRequest& request) {
  json object = {{kServer, request.server}};
  if (request.copy) object[kCopy] = *request.copy;
  return text_of(object);
}

absl::StatusOr<DrainRequest> decode_drain_request(std::string_view text) {
  const json object = parse(text);
  const std::optional<std::uint32_t> server = job::number_in(object, kServer);
  const std::optional<std::uint32_t> copy = job::number_in(object, kCopy);
  if (!server || (object.contains(kCopy) && !copy))
    return absl::InvalidArgumentError("a request to step aside: expected a server, and perhaps a copy");
  return DrainRequest{.server = *server, .copy = copy};
}

std::string encode_drain_answer(const absl::StatusOr<std::string>& answer) {
  if (answer.ok()) return text_of({{kDone, *answer}});
  return text_of({{kRefused, std::string(answer.status().message())}});
}

absl::StatusOr<std::string> decode_drain_answer(std::string_view text) {
  const json object = parse(text);
  if (std::optional<std::string> done = job::text_in(object, kDone)) return *std::move(done);
  if (const std::optional<std::string> refused = job::text_in(object, kRefused))
    return absl::FailedPreconditionError(*refused);
  return absl::InternalError("the launcher answers what nobody understands");
}

}  // namespace verbena::apps
