#include "base/printable.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <utility>

namespace verbena::base {
namespace {

struct CodePoints {
  std::uint32_t first;
  std::uint32_t last;
};

/// Control characters, line ends, direction marks, invisible characters and tags, in ascending order.
constexpr std::array<CodePoints, 11> kHidden = {{{0x00, 0x1F},
                                                 {0x7F, 0x9F},
                                                 {0xAD, 0xAD},
                                                 {0x61C, 0x61C},
                                                 {0x200B, 0x200B},
                                                 {0x200E, 0x200F},
                                                 {0x2028, 0x202E},
                                                 {0x2060, 0x206F},
                                                 {0xFEFF, 0xFEFF},
                                                 {0xFFF9, 0xFFFB},
                                                 {0xE0000, 0xE007F}}};

bool is_hidden(std::uint32_t point) {
  return std::ranges::any_of(
      kHidden, [&](const CodePoints& points) { return point >= points.first && point <= points.last; });
}

struct Decoded {
  std::uint32_t point;
  std::size_t bytes;
};

/// The first code point of `text`, which is not empty; nullopt if it is not UTF-8.
std::optional<Decoded> first_of(std::string_view text) {
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
  if (byte(0) < 0x80) return Decoded{byte(0), 1};
  const std::size_t bytes = byte(0) >= 0xF0 ? 4 : byte(0) >= 0xE0 ? 3 : 2;
  if (byte(0) < 0xC2 || byte(0) > 0xF4 || text.size() < bytes) return std::nullopt;
  std::uint32_t point = byte(0) & (0xFFU >> (bytes + 1));
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0U) != 0x80U) return std::nullopt;
    point = point << 6U | (byte(i) & 0x3FU);
  }
  // An overlong encoding, half of a UTF-16 surrogate pair, or beyond the last code point.
  const bool none = (bytes == 3 && point < 0x800) || (bytes == 4 && (point < 0x10000 || point > 0x10FFFF)) ||
                    (point >= 0xD800 && point <= 0xDFFF);
  return none ? std::nullopt : std::optional(Decoded{point, bytes});
}

void append_escape(std::uint32_t point, std::string& out) {
  switch (point) {
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      break;
  }
  if (point >= 0x10000) {
    const std::uint32_t pair = point - 0x10000;
    fmt::format_to(std::back_inserter(out), "\\u{:04x}", 0xD800 + (pair >> 10U));
    point = 0xDC00 + (pair & 0x3FFU);
  }
  fmt::format_to(std::back_inserter(out), "\\u{:04x}", point);
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::optional<Decoded> decoded = first_of(text);
    if (!decoded) {
      fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<unsigned char>(text.front()));
    } else if (is_hidden(decoded->point)) {
      append_escape(decoded->point, out);
    } else {
      out += text.substr(0, decoded->bytes);
    }
    text.remove_prefix(decoded ? decoded->bytes : 1);
  }
  return out;
}

absl::Status printable(const absl::Status& status) {
  const absl::string_view message = status.message();
  return absl::Status(status.code(), printable(std::string_view(message.data(), message.size())));
}

std::string printable_lines(std::string_view text) {
  std::string out;
  for (std::size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
    out += printable(text.substr(0, end)) + "\n";
    text.remove_prefix(end + 1);
  }
  return out + printable(text);
}

}  // namespace verbena::base
