// Words of running text.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace verbena::apps {

/// A word is a run of letters, digits and inner apostrophes with at least one letter. ASCII letters become
/// lower case, U+2019 becomes an apostrophe; other letters of UTF-8 stay as they are.
class Tokenizer {
 public:
  /// Calls `use` with each word of the text, valid during the call. False where the text is not UTF-8, after
  /// the words before that place; damaged() then is its first byte.
  bool for_each_word(std::string_view text, const std::function<void(std::string_view)>& use);
  [[nodiscard]] unsigned char damaged() const { return damaged_; }

 private:
  std::string word_;
  unsigned char damaged_ = 0;
};

}  // namespace verbena::apps
