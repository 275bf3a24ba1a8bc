// What a source declares for itself alone: in unnamed namespaces, or with `static` or `const` outside of
// classes. Read from the text, without a compiler's knowledge: enough for a house that writes one declaration
// at a time.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace verbena::repository {

struct Declaration {
  std::string name;  ///< with the namespaces around it, "verbena::apps::kGoal"
  std::size_t line = 0;
  /// Of an alias, all of it: the same one may be declared again and again.
  std::string alias;
};

/// In the order of the text. Forward declarations and overloads come again.
std::vector<Declaration> own_declarations(std::string_view text);

}  // namespace verbena::repository
