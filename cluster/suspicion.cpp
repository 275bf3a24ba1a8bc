#include "cluster/suspicion.hpp"

#include <nlohmann/json.hpp>

namespace verbena::cluster {

using Json = nlohmann::json;

std::string encode(const Suspicion& suspicion) {
  return Json{{"suspect", suspicion.address}, {"why", suspicion.why}}.dump(-1, ' ', false,
                                                                           Json::error_handler_t::replace);
}

absl::StatusOr<Suspicion> decode_suspicion(std::string_view text) {
  constexpr std::size_t kMostBytes = 16 << 10;
  const auto wrong = [] {
    return absl::InvalidArgumentError("a suspicion: expected an address and a reason");
  };
  if (text.size() > kMostBytes) return wrong();
  // The parser's own limit of depth is the stack.
  const auto is_shallow = [](int depth, Json::parse_event_t, Json&) { return depth <= 1; };
  const Json json = Json::parse(text, is_shallow, /*allow_exceptions=*/false);
  if (!json.is_object()) return wrong();
  const auto address = json.find("suspect");
  const auto why = json.find("why");
  if (address == json.end() || !address->is_string() || why == json.end() || !why->is_string())
    return wrong();
  return Suspicion{.address = address->get<std::string>(), .why = why->get<std::string>()};
}

}  // namespace verbena::cluster
