// What a run writes with --metrics, read by the program that has started it.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "base/file_descriptor.hpp"

namespace verbena::apps {

/// A pipe with a name, in which a run's metrics arrive line by line.
class MetricsPipe {
 public:
  static absl::StatusOr<MetricsPipe> make(const std::string& path);
  MetricsPipe(MetricsPipe&&) = default;
  MetricsPipe& operator=(MetricsPipe&&) = delete;
  ~MetricsPipe();

  /// Calls use(line) for each line that has arrived; waits for the first one, at most for `patience`.
  void read(std::chrono::milliseconds patience, absl::FunctionRef<void(std::string_view)> use);

 private:
  MetricsPipe(std::string path, base::FileDescriptor descriptor);

  std::string path_;  ///< empty: nobody else can open it any more
  base::FileDescriptor descriptor_;
  std::string text_;  ///< of a line whose end has not arrived
};

}  // namespace verbena::apps
