// The fields of a line of a table: between separators, some of which let them be quoted.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <deque>
#include <span>
#include <string>
#include <string_view>

namespace verbena::apps {

struct Separator {
  std::string_view text;  ///< empty: any number of blanks
  std::string_view name;
  bool quotes = false;  ///< fields may be quoted
};

/// Splits one line after the other into fields.
class SplitLine {
 public:
  /// Returns false if a quoted field does not end. The fields are valid until the next call.
  bool split(std::string_view line, const Separator& separator);
  /// count() is the number of all fields, but fields() has only the first kKept.
  static constexpr std::size_t kKept = 64;
  [[nodiscard]] std::size_t count() const { return count_; }
  [[nodiscard]] std::span<const std::string_view> fields() const {
    return std::span(fields_).first(std::min(count_, kKept));
  }

 private:
  bool split_quoted(std::string_view line, const Separator& separator);
  void add(std::string_view field);

  std::array<std::string_view, kKept> fields_;
  std::deque<std::string> unquoted_;
  std::size_t used_ = 0;  // of unquoted_
  std::size_t count_ = 0;
};

/// Without blanks around it.
std::string_view trimmed(std::string_view field);

}  // namespace verbena::apps
