#include "apps/data/tokenizer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"

namespace verbena::apps {
namespace {

/// U+2019, which is frequent in English text: it must not prevent the fast way.
constexpr std::string_view kRightQuoteBytes = "\xE2\x80\x99";
constexpr std::size_t kOtherBytesAtOnce = 1U << 16U;

bool is_ascii(char c) {
  return static_cast<unsigned char>(c) < 0x80;
}
bool is_ascii_blank(char c) {
  return static_cast<unsigned char>(c) <= ' ';
}

/// The first byte from `at` on that is not ASCII, or the end; eight at a time.
std::size_t skip_ascii(std::string_view text, std::size_t at) {
  constexpr std::uint64_t kNotAscii = 0x8080808080808080U;
  for (std::uint64_t bytes = 0; at + sizeof(bytes) <= text.size(); at += sizeof(bytes)) {
    std::memcpy(&bytes, text.data() + at, sizeof(bytes));
    if ((bytes & kNotAscii) != 0) break;
  }
  while (at < text.size() && is_ascii(text[at])) ++at;
  return at;
}

/// The length of the prefix, cut at a blank, that has only ASCII and right quotes. Between blanks, words do
/// not depend on what is beside them.
std::size_t plain_prefix(std::string_view text) {
  std::size_t end = skip_ascii(text, 0);
  while (text.substr(end).starts_with(kRightQuoteBytes))
    end = skip_ascii(text, end + kRightQuoteBytes.size());
  if (end == text.size()) return end;
  while (end > 0 && !is_ascii_blank(text[end - 1])) --end;
  return end;
}

/// The length of the text up to the blank before the next stretch that is plain.
std::size_t other_prefix(std::string_view text) {
  std::size_t end = 0;
  while (end < text.size() && end < kOtherBytesAtOnce) {
    std::size_t next = end;
    while (next < text.size() && is_ascii_blank(text[next])) ++next;
    const std::size_t begin = next;
    while (next < text.size() && !is_ascii_blank(text[next])) ++next;
    const std::string_view stretch = text.substr(begin, next - begin);
    if (plain_prefix(stretch) == stretch.size()) break;
    end = next;
  }
  return end;
}

}  // namespace

absl::StatusOr<Tokens> parse_tokens(const std::string& name) {
  if (name == "words") return Tokens::kWords;
  if (name == "whitespace") return Tokens::kWhitespace;
  return absl::InvalidArgumentError(fmt::format("--tokens: expected words or whitespace, found {}", name));
}

bool Tokenizer::for_each_word(std::string_view text, const std::function<void(std::string_view)>& use) {
  if (tokens_ == Tokens::kWhitespace) return for_each_token(text, use);
  while (!text.empty()) {
    const std::size_t plain = plain_prefix(text);
    add_plain_words(text.substr(0, plain), use);
    text.remove_prefix(plain);
    const std::string_view other = text.substr(0, other_prefix(text));
    if (!other.empty()) {
      if (!is_whole(other)) return false;
      unicode().for_each_word(other, use);
    }
    text.remove_prefix(other.size());
  }
  return true;
}

/// The same rules as unicode()'s, for ASCII and right quotes.
void Tokenizer::add_plain_words(std::string_view text, const std::function<void(std::string_view)>& use) {
  bool has_letter = false;
  bool apostrophe = false;  // waits for a letter behind it
  word_.clear();
  const auto finish = [&] {
    if (has_letter) use(word_);
    word_.clear();
    has_letter = apostrophe = false;
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const auto lower = static_cast<char>(c | 0x20);
    const bool is_letter = lower >= 'a' && lower <= 'z';
    if (is_letter || (c >= '0' && c <= '9')) {
      if (apostrophe) word_ += '\'';
      apostrophe = false;
      has_letter = has_letter || is_letter;
      word_ += is_letter ? lower : c;
    } else if (c == '\'' || !is_ascii(c)) {
      if (!is_ascii(c)) i += kRightQuoteBytes.size() - 1;
      if (apostrophe) finish();
      apostrophe = !word_.empty();
    } else {
      finish();
    }
  }
  finish();
}

bool Tokenizer::for_each_token(std::string_view text, const std::function<void(std::string_view)>& use) {
  std::size_t size = 0;
  const auto finish = [&] {
    if (size > 0) use(text.substr(0, size));
    text.remove_prefix(size);
    size = 0;
  };
  while (size < text.size()) {
    const Character character = decode_utf8(text.substr(size));
    if (character.bytes == 0) {
      damaged_ = static_cast<unsigned char>(text[size]);
      return false;
    }
    if (is_blank(character.code)) {
      finish();
      text.remove_prefix(character.bytes);
    } else {
      size += character.bytes;
    }
  }
  finish();
  return true;
}

std::string Tokenizer::vocabulary_form(std::string_view word) {
  if (tokens_ == Tokens::kWhitespace || !is_utf8(word)) return std::string(word);
  if (std::all_of(word.begin(), word.end(), is_ascii)) {
    std::string lower(word);
    absl::AsciiStrToLower(&lower);
    return lower;
  }
  return unicode().vocabulary_form(word);
}

bool Tokenizer::is_whole(std::string_view text) {
  while (!text.empty()) {
    const Character character = decode_utf8(text);
    if (character.bytes == 0) {
      damaged_ = static_cast<unsigned char>(text.front());
      return false;
    }
    text.remove_prefix(character.bytes);
  }
  return true;
}

UnicodeWords& Tokenizer::unicode() {
  if (unicode_ == nullptr) unicode_ = std::make_unique<UnicodeWords>();
  return *unicode_;
}

}  // namespace verbena::apps
