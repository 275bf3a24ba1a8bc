#include "apps/data/separated_fields.hpp"

#include "apps/data/fields.hpp"

namespace verbena::apps {
namespace {

/// Takes a quoted field off the front of `rest`, which begins with a quote; "" stands for one quote. Returns
/// false if the closing quote is missing or is not followed by a separator.
bool take_quoted(std::string_view& rest, std::string_view separator, std::string& field) {
  std::size_t at = 1;
  for (; at < rest.size(); ++at) {
    if (rest[at] == '"') {
      if (at + 1 == rest.size() || rest[at + 1] != '"') break;
      ++at;
    }
    field += rest[at];
  }
  if (at >= rest.size()) return false;
  rest.remove_prefix(at + 1);
  return rest.empty() || rest.starts_with(separator);
}

}  // namespace

std::string_view trimmed(std::string_view field) {
  const std::size_t first = std::min(field.find_first_not_of(kBlanks), field.size());
  const std::size_t last = field.find_last_not_of(kBlanks);
  return first == field.size() ? std::string_view() : field.substr(first, last + 1 - first);
}

bool SplitLine::split(std::string_view line, const Separator& separator) {
  count_ = used_ = 0;
  if (separator.text.empty()) {
    for (std::string_view field = next_field(line); !field.empty(); field = next_field(line)) add(field);
    return true;
  }
  if (separator.quotes && line.find('"') != std::string_view::npos) return split_quoted(line, separator);
  while (true) {
    const std::size_t end = line.find(separator.text);
    add(line.substr(0, end));
    if (end == std::string_view::npos) return true;
    line.remove_prefix(end + separator.text.size());
  }
}

bool SplitLine::split_quoted(std::string_view line, const Separator& separator) {
  while (true) {
    if (line.starts_with('"')) {
      if (used_ == unquoted_.size()) unquoted_.emplace_back();
      std::string& unquoted = unquoted_[used_];
      unquoted.clear();
      if (!take_quoted(line, separator.text, unquoted)) return false;
      if (count_ < kKept) ++used_;
      add(unquoted);
    } else {
      const std::size_t end = std::min(line.find(separator.text), line.size());
      add(line.substr(0, end));
      line.remove_prefix(end);
    }
    if (line.empty()) return true;
    line.remove_prefix(separator.text.size());
  }
}

void SplitLine::add(std::string_view field) {
  if (count_ < kKept) fields_[count_] = field;
  ++count_;
}

}  // namespace verbena::apps
