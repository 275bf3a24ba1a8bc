// Which options of a command were given, so that those that would do nothing can be refused.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace CLI {
class App;
}  // namespace CLI

namespace verbena::apps {

class GivenOptions {
 public:
  /// Takes note of the options that `add` adds to `command`, which must not be parsed after this object's
  /// end.
  void watch(CLI::App& command, absl::FunctionRef<void()> add);

  /// Names are without dashes.
  [[nodiscard]] bool contains(std::string_view name) const { return names_.contains(std::string(name)); }

  /// INVALID_ARGUMENT "--a, --b: REASON" if options were given of which `why_idle` says why they do nothing
  /// beside the others; all that do nothing for the first one's reason are named. `why_idle` returns an empty
  /// text for an option that does something.
  [[nodiscard]] absl::Status refuse_idle(
      absl::FunctionRef<std::string_view(std::string_view name)> why_idle) const;

 private:
  std::set<std::string> names_;
};

}  // namespace verbena::apps
