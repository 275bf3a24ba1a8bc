// Characters and words by Unicode's rules, from ICU: the slow way of the tokenizer, for what is not ASCII.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

struct UBreakIterator;

namespace verbena::apps {

struct Character {
  char32_t code = 0;
  std::size_t bytes = 0;  ///< 0: not UTF-8
};

/// The first character. Overlong forms, surrogates and codes above U+10FFFF are not UTF-8. REQUIRES: not
/// empty.
Character decode_utf8(std::string_view text);
bool is_utf8(std::string_view text);

/// White space and control characters.
bool is_blank(char32_t code);

/// Words of UTF-8 text. Throws std::bad_alloc if ICU has no memory.
class UnicodeWords {
 public:
  UnicodeWords();
  ~UnicodeWords();
  UnicodeWords(const UnicodeWords&) = delete;
  UnicodeWords& operator=(const UnicodeWords&) = delete;

  /// As Tokenizer's. REQUIRES: `text` is UTF-8; it begins and ends at a blank, or where the whole text begins
  /// and ends.
  void for_each_word(std::string_view text, const std::function<void(std::string_view)>& use);

  /// The form that a word has in a vocabulary: in lower case, composed (NFC), without invisible characters.
  std::string vocabulary_form(std::string_view word);

 private:
  class Splitter;
  void read(std::string_view text);
  std::string_view finish(std::u16string& word);

  struct Close {
    void operator()(UBreakIterator* iterator) const;
  };
  std::unique_ptr<UBreakIterator, Close> breaks_;
  std::u16string text_;
  std::u16string word_;
  std::u16string lower_;
  std::u16string composed_;
  std::string result_;
};

}  // namespace verbena::apps
