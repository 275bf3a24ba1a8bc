// Words of running text.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "apps/data/unicode.hpp"

namespace verbena::apps {

/// What a token of running text is.
enum class Tokens : std::uint8_t {
  /// Letters with their marks, digits and inner apostrophes, with at least one letter; in lower case,
  /// composed (NFC), with ’ written as '. Words end where UAX 29 has a boundary (for scripts without blanks:
  /// by ICU's dictionaries), and at punctuation of any script. Invisible characters are left out, except
  /// joiners between letters.
  kWords,
  /// Whatever is between white space, as it is.
  kWhitespace,
};

/// "words" or "whitespace".
absl::StatusOr<Tokens> parse_tokens(const std::string& name);

class Tokenizer {
 public:
  explicit Tokenizer(Tokens tokens = Tokens::kWords) : tokens_(tokens) {}

  /// Calls `use` with each word of the text, valid during the call. Returns false if the text is not UTF-8,
  /// maybe after some of its words; damaged() is then the first byte that is not.
  bool for_each_word(std::string_view text, const std::function<void(std::string_view)>& use);
  [[nodiscard]] unsigned char damaged() const { return damaged_; }

  /// The form in which a text would have this word, as written by people or other tools; it is not split.
  /// What is not UTF-8 stays as it is.
  std::string vocabulary_form(std::string_view word);

 private:
  void add_plain_words(std::string_view text, const std::function<void(std::string_view)>& use);
  bool for_each_token(std::string_view text, const std::function<void(std::string_view)>& use);
  [[nodiscard]] bool is_whole(std::string_view text);
  UnicodeWords& unicode();

  Tokens tokens_;
  std::string word_;
  std::unique_ptr<UnicodeWords> unicode_;  // made when there is something that is not ASCII
  unsigned char damaged_ = 0;
};

}  // namespace verbena::apps
