#include "protocol/push_encoding.hpp"

#include <fmt/format.h>

#include <cmath>

#include "base/compression.hpp"
#include "protocol/named_parameters.hpp"
#include "protocol/packed_updates.hpp"

namespace verbena::protocol {
namespace {

constexpr std::string_view kTheEncoding = "the encoding";
constexpr NamedParameter kPacked[] = {
    {.name = "lists", .usual = 0, .least = 0, .most = kMaxListedKeys},
    {.name = "zstd", .usual = 0, .least = 0, .most = base::kMaxCompressionLevel}};

}  // namespace

absl::StatusOr<PushEncoding> PushEncoding::find(std::string_view text) {
  const auto named = NamedParameters::parse(kTheEncoding, text);
  if (!named.ok()) return named.status();
  PushEncoding encoding;
  if (named->name == "packed") {
    const auto values = named->values_of(kTheEncoding, kPacked);
    if (!values.ok()) return values.status();
    const double level = (*values)[1];
    if (level != std::floor(level))
      return absl::InvalidArgumentError(fmt::format("zstd of {} is {}, no whole number", text, level));
    return PushEncoding{.kind = Kind::kPacked,
                        .listed_keys = static_cast<std::uint64_t>((*values)[0]),
                        .zstd_level = static_cast<int>(level)};
  }
  if (named->name == "records") {
    encoding.kind = Kind::kRecords;
  } else if (named->name != kUsualEncoding) {
    return absl::InvalidArgumentError(fmt::format(
        "{} \"{}\": expected auto, records or packed(lists=NUMBER,zstd=NUMBER)", kTheEncoding, text));
  }
  const auto none = named->values_of(kTheEncoding, {});
  if (!none.ok()) return none.status();
  return encoding;
}

}  // namespace verbena::protocol
