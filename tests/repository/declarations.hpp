// What a source declares for itself alone: in unnamed namespaces, or with `static` or `const` outside of
// classes. It is read from the text, without a compiler's knowledge. That is enough for sources that write
// one declaration at a time.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace verbena::repository {

struct Declaration {
  std::string name;  ///< with its namespaces: "verbena::apps::kGoal"
  std::size_t line = 0;
  /// For an alias, the whole declaration: the same alias may be declared again.
  std::string alias;
};

/// In the order of the text. Forward declarations and overloads are listed, too, so a name may come several
/// times.
std::vector<Declaration> own_declarations(std::string_view text);

}  // namespace verbena::repository
