#include "apps/data/tokenizer.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

namespace verbena::apps {
namespace {

enum class Kind : std::uint8_t { kSeparator, kLetter, kDigit, kApostrophe };

struct Character {
  char32_t code = 0;
  std::size_t bytes = 0;  ///< 0: not UTF-8
};

/// Overlong forms, surrogates and codes above U+10FFFF are not UTF-8.
Character decode(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const std::size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || bytes > text.size()) return {};
  char32_t code = lead & (0x7fU >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0U) != 0x80) return {};
    code = (code << 6U) | (byte(i) & 0x3fU);
  }
  constexpr std::array<char32_t, 5> kSmallest = {0, 0, 0x80, 0x800, 0x10000};
  if (code < kSmallest[bytes] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return {};
  return {code, bytes};
}

Kind kind_of(char32_t code) {
  if (code < 0x80) {
    if ((code | 0x20U) >= 'a' && (code | 0x20U) <= 'z') return Kind::kLetter;
    if (code >= '0' && code <= '9') return Kind::kDigit;
    return code == '\'' ? Kind::kApostrophe : Kind::kSeparator;
  }
  if (code == 0x2019) return Kind::kApostrophe;
  const bool latin_sign =
      (code < 0xc0 && code != 0xaa && code != 0xb5 && code != 0xba) || code == 0xd7 || code == 0xf7;
  const bool sign = (code >= 0x2000 && code < 0x2070) || (code >= 0x20a0 && code < 0x2c00) ||
                    (code >= 0x2e00 && code < 0x2e80) || (code >= 0x3000 && code < 0x3005) ||
                    (code >= 0x3008 && code < 0x3021) || (code >= 0xff00 && code < 0xff21) ||
                    code == 0xfeff || (code >= 0x1f000 && code < 0x1fb00);
  return latin_sign || sign ? Kind::kSeparator : Kind::kLetter;
}

}  // namespace

bool Tokenizer::for_each_word(std::string_view text, const std::function<void(std::string_view)>& use) {
  bool has_letter = false;
  bool apostrophe = false;  // waits for a letter behind it
  word_.clear();
  const auto finish = [&] {
    if (has_letter) use(word_);
    word_.clear();
    has_letter = apostrophe = false;
  };
  while (!text.empty()) {
    const Character character = decode(text);
    if (character.bytes == 0) {
      damaged_ = static_cast<unsigned char>(text.front());
      return false;
    }
    const Kind kind = kind_of(character.code);
    if (kind == Kind::kSeparator || (kind == Kind::kApostrophe && apostrophe)) {
      finish();
    } else if (kind == Kind::kApostrophe) {
      apostrophe = !word_.empty();
    } else {
      if (apostrophe) word_ += '\'';
      apostrophe = false;
      has_letter = has_letter || kind == Kind::kLetter;
      const bool upper = character.code >= 'A' && character.code <= 'Z';
      if (upper) {
        word_ += static_cast<char>(text.front() | 0x20);
      } else {
        word_ += text.substr(0, character.bytes);
      }
    }
    text.remove_prefix(character.bytes);
  }
  finish();
  return true;
}

}  // namespace verbena::apps
