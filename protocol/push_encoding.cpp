#include "protocol/push_encoding.hpp"

#include <fmt/format.h>

#include "protocol/named_parameters.hpp"
#include "protocol/packed_updates.hpp"

namespace verbena::protocol {
namespace {

constexpr std::string_view kTheEncoding = "the encoding";
constexpr NamedParameter kLists[] = {{.name = "lists", .usual = 0, .least = 0, .most = kMaxListedKeys}};

}  // namespace

absl::StatusOr<PushEncoding> PushEncoding::find(std::string_view text) {
  const auto named = NamedParameters::parse(kTheEncoding, text);
  if (!named.ok()) return named.status();
  PushEncoding encoding;
  if (named->name == "packed") {
    const auto values = named->values_of(kTheEncoding, kLists);
    if (!values.ok()) return values.status();
    return PushEncoding{.kind = Kind::kPacked, .listed_keys = static_cast<std::uint64_t>((*values)[0])};
  }
  if (named->name == "records") {
    encoding.kind = Kind::kRecords;
  } else if (named->name != kUsualEncoding) {
    return absl::InvalidArgumentError(
        fmt::format("{} \"{}\": expected auto, records or packed(lists=NUMBER)", kTheEncoding, text));
  }
  const auto none = named->values_of(kTheEncoding, {});
  if (!none.ok()) return none.status();
  return encoding;
}

}  // namespace verbena::protocol
