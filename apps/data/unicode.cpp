#include "apps/data/unicode.hpp"

#include <unicode/ubrk.h>
#include <unicode/uchar.h>
#include <unicode/unorm2.h>
#include <unicode/ustring.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <new>

namespace verbena::apps {
namespace {

constexpr const char* kRootLocale = "";
constexpr char16_t kStraightQuote = u'\'';
constexpr char32_t kRightQuote = 0x2019;
constexpr char32_t kZeroWidthNonJoiner = 0x200c;
constexpr char32_t kZeroWidthJoiner = 0x200d;

enum class Kind : std::uint8_t {
  kSeparator,
  kLetter,
  kDigit,
  kMark,        ///< belongs to the letter before it
  kApostrophe,  ///< within a word if letters or digits are on both sides
  kInner,       ///< within a word where UAX 29 does not break there, as in "l·l"
  kJoiner,      ///< invisible, but tells how its neighbours are written
  kIgnored,     ///< invisible
};

/// These calls of ICU fail only if there is no memory, because its data is linked in.
void check_icu(UErrorCode error) {
  if (U_FAILURE(error)) throw std::bad_alloc();
}

bool is_colon(char32_t code) {
  return code == ':' || code == 0xfe13 || code == 0xfe55 || code == 0xff1a;
}

Kind kind_of(char32_t code) {
  const auto character = static_cast<UChar32>(code);
  if (code == kStraightQuote || code == kRightQuote) return Kind::kApostrophe;
  const int word_break = u_getIntPropertyValue(character, UCHAR_WORD_BREAK);
  if (u_hasBinaryProperty(character, UCHAR_DEFAULT_IGNORABLE_CODE_POINT) != 0) {
    if (code == kZeroWidthJoiner || code == kZeroWidthNonJoiner) return Kind::kJoiner;
    return word_break == U_WB_OTHER ? Kind::kSeparator : Kind::kIgnored;  // the zero width space separates
  }
  const std::uint32_t category = U_GET_GC_MASK(character);
  if ((category & (U_GC_L_MASK | U_GC_NL_MASK)) != 0) return Kind::kLetter;
  if ((category & U_GC_M_MASK) != 0) return Kind::kMark;
  if ((category & U_GC_N_MASK) != 0) return Kind::kDigit;
  if (word_break == U_WB_MIDLETTER && !is_colon(code)) return Kind::kInner;
  return category == U_GC_CF_MASK && word_break != U_WB_OTHER ? Kind::kIgnored : Kind::kSeparator;
}

constexpr char32_t kFirstLead = 0xd800;
constexpr char32_t kFirstTrail = 0xdc00;
constexpr char32_t kFirstOfTwo = 0x10000;
constexpr unsigned kTrailBits = 10;

void append(std::u16string& text, char32_t code) {
  if (code < kFirstOfTwo) {
    text += static_cast<char16_t>(code);
  } else {
    text += static_cast<char16_t>(kFirstLead + ((code - kFirstOfTwo) >> kTrailBits));
    text += static_cast<char16_t>(kFirstTrail + (code & ((1U << kTrailBits) - 1)));
  }
}

/// The character at `next`, which is moved on. REQUIRES: made by append().
char32_t take(const std::u16string& text, std::size_t& next) {
  const char32_t lead = text[next++];
  if (lead < kFirstLead || lead >= kFirstTrail) return lead;
  return kFirstOfTwo + ((lead - kFirstLead) << kTrailBits) + (text[next++] - kFirstTrail);
}

std::int32_t size_of(const std::u16string& text) {
  return static_cast<std::int32_t>(text.size());
}

/// Calls `fill(data, capacity, error)`, which returns how much room it needs, until there is enough.
template <class String, class Fill>
void fill_string(String& result, std::size_t likely, const Fill& fill) {
  result.resize(likely);
  while (true) {
    UErrorCode error = U_ZERO_ERROR;
    const std::int32_t needed = fill(result.data(), static_cast<std::int32_t>(result.size()), &error);
    const bool fits = error != U_BUFFER_OVERFLOW_ERROR;
    if (fits) check_icu(error);
    result.resize(static_cast<std::size_t>(needed));
    if (fits) return;
  }
}

}  // namespace

Character decode_utf8(std::string_view text) {
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

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const Character character = decode_utf8(text);
    if (character.bytes == 0) return false;
    text.remove_prefix(character.bytes);
  }
  return true;
}

bool is_blank(char32_t code) {
  const auto character = static_cast<UChar32>(code);
  return u_isUWhiteSpace(character) != 0 || u_charType(character) == U_CONTROL_CHAR;
}

/// Puts words together, character by character.
class UnicodeWords::Splitter {
 public:
  Splitter(UnicodeWords& owner, const std::function<void(std::string_view)>& use) : owner_(owner), use_(use) {
    owner_.word_.clear();
  }

  /// `is_boundary`: UAX 29 (or a dictionary, for scripts without blanks) has a boundary before the character.
  void add(char32_t code, bool is_boundary) {
    broken_ = broken_ || is_boundary;
    switch (kind_of(code)) {
      case Kind::kLetter:
        add_to_word(code);
        has_letter_ = true;
        break;
      case Kind::kDigit:
        add_to_word(code);
        break;
      case Kind::kMark:
        if (!word().empty() && !broken_ && !is_mid_word(pending_)) add_to_word(code);
        break;
      case Kind::kApostrophe:
        add_apostrophe();
        break;
      case Kind::kInner:
        if (broken_ || is_mid_word(pending_)) finish();
        if (!word().empty()) pending_ = code;
        break;
      case Kind::kJoiner:
        if (!word().empty() && pending_ == 0) pending_ = code;
        break;
      case Kind::kSeparator:
        finish();
        break;
      case Kind::kIgnored:
        break;
    }
  }

  void finish() {
    if (has_letter_) use_(owner_.finish(word()));
    word().clear();
    has_letter_ = false;
    pending_ = 0;
  }

 private:
  [[nodiscard]] std::u16string& word() const { return owner_.word_; }
  static bool is_mid_word(char32_t pending) {
    return pending != 0 && pending != kZeroWidthJoiner && pending != kZeroWidthNonJoiner;
  }

  void add_to_word(char32_t code) {
    if (!word().empty() && broken_ && pending_ != kStraightQuote) finish();
    if (pending_ != 0) append(word(), pending_);
    append(word(), code);
    pending_ = 0;
    broken_ = false;
  }
  void add_apostrophe() {
    if (is_mid_word(pending_)) finish();
    if (!word().empty()) pending_ = kStraightQuote;
  }

  UnicodeWords& owner_;
  const std::function<void(std::string_view)>& use_;
  bool has_letter_ = false;
  bool broken_ = false;   // there is a boundary behind the word's last character
  char32_t pending_ = 0;  // becomes part of the word if it goes on
};

void UnicodeWords::Close::operator()(UBreakIterator* iterator) const {
  ubrk_close(iterator);
}

UnicodeWords::UnicodeWords() {
  UErrorCode error = U_ZERO_ERROR;
  breaks_.reset(ubrk_open(UBRK_WORD, kRootLocale, nullptr, 0, &error));
  check_icu(error);
}
UnicodeWords::~UnicodeWords() = default;

void UnicodeWords::read(std::string_view text) {
  text_.clear();
  while (!text.empty()) {
    const Character character = decode_utf8(text);
    append(text_, character.code);
    text.remove_prefix(std::max<std::size_t>(character.bytes, 1));
  }
}

void UnicodeWords::for_each_word(std::string_view text, const std::function<void(std::string_view)>& use) {
  read(text);
  UErrorCode error = U_ZERO_ERROR;
  ubrk_setText(breaks_.get(), text_.data(), size_of(text_), &error);
  check_icu(error);
  Splitter splitter(*this, use);
  std::int32_t boundary = ubrk_next(breaks_.get());
  for (std::size_t next = 0; next < text_.size();) {
    const auto at = static_cast<std::int32_t>(next);
    const char32_t code = take(text_, next);
    const bool is_boundary = boundary != UBRK_DONE && boundary <= at;
    while (boundary != UBRK_DONE && boundary <= at) boundary = ubrk_next(breaks_.get());
    splitter.add(code, is_boundary);
  }
  splitter.finish();
}

std::string UnicodeWords::vocabulary_form(std::string_view word) {
  read(word);
  word_.clear();
  for (std::size_t next = 0; next < text_.size();) {
    const char32_t code = take(text_, next);
    const Kind kind = kind_of(code);
    if (kind == Kind::kApostrophe) word_ += kStraightQuote;
    if (kind != Kind::kApostrophe && kind != Kind::kIgnored) append(word_, code);
  }
  return std::string(finish(word_));
}

/// The word in lower case, composed, as UTF-8.
std::string_view UnicodeWords::finish(std::u16string& word) {
  fill_string(lower_, word.size() + 8, [&](char16_t* data, std::int32_t capacity, UErrorCode* error) {
    return u_strToLower(data, capacity, word.data(), size_of(word), kRootLocale, error);
  });
  UErrorCode error = U_ZERO_ERROR;
  const UNormalizer2* const nfc = unorm2_getNFCInstance(&error);
  check_icu(error);
  fill_string(composed_, lower_.size() + 8, [&](char16_t* data, std::int32_t capacity, UErrorCode* failure) {
    return unorm2_normalize(nfc, lower_.data(), size_of(lower_), data, capacity, failure);
  });
  fill_string(result_, 3 * composed_.size(), [&](char* data, std::int32_t capacity, UErrorCode* failure) {
    std::int32_t needed = 0;
    u_strToUTF8(data, capacity, &needed, composed_.data(), size_of(composed_), failure);
    return needed;
  });
  return result_;
}

}  // namespace verbena::apps
