#include "cluster/order.hpp"

#include <nlohmann/json.hpp>

#include "cluster/json_fields.hpp"

namespace verbena::cluster {
namespace {

using Json = nlohmann::json;

constexpr const char* kBecomesCopy = "becomes a copy of";
constexpr const char* kIsNotNeeded = "is not needed";
constexpr const char* kStartsAnother = "starts";
constexpr const char* kStepsAside = "steps aside";

Json json_of_order(const BecomesCopy& order) {
  return {{kBecomesCopy, order.server}};
}
Json json_of_order(const IsNotNeeded& order) {
  return {{kIsNotNeeded, order.why}};
}
Json json_of_order(const StartsAnother& order) {
  return {{kStartsAnother, order.rank}};
}
Json json_of_order(const StepsAside& /*order*/) {
  return {{kStepsAside, true}};
}

}  // namespace

std::string encode(const Order& order) {
  const Json json = std::visit([](const auto& one) { return json_of_order(one); }, order);
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

absl::StatusOr<Order> decode_order(std::string_view text) {
  constexpr std::size_t kMostBytes = 16 << 10;
  const auto wrong = [] {
    return absl::InvalidArgumentError(
        "an order of rank 0: expected to become a copy, not to be needed, to start another process, or to "
        "step aside");
  };
  if (text.size() > kMostBytes) return wrong();
  // The parser's own limit of depth is the stack.
  const auto is_shallow = [](int depth, Json::parse_event_t, Json&) { return depth <= 1; };
  const Json json = Json::parse(text, is_shallow, /*allow_exceptions=*/false);
  if (!json.is_object()) return wrong();
  if (const auto server = number_in(json, kBecomesCopy)) return BecomesCopy{.server = *server};
  if (const auto rank = number_in(json, kStartsAnother)) return StartsAnother{.rank = *rank};
  if (const auto why = text_in(json, kIsNotNeeded)) return IsNotNeeded{.why = *why};
  if (json.contains(kStepsAside)) return StepsAside{};
  return wrong();
}

}  // namespace verbena::cluster
