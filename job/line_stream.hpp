// Whole lines over a descriptor: what processes of a job say to each other outside of the transport.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace verbena::job {

/// Splits a stream into lines.
class LineStream {
 public:
  /// Hands over the whole lines that can be read from `descriptor`, which is non-blocking; false when the
  /// other end has closed.
  bool read(int descriptor, const std::function<void(std::string_view line)>& handle);
  /// The same, of bytes that have come some other way.
  void add(std::string_view bytes, const std::function<void(std::string_view line)>& handle);
  [[nodiscard]] std::size_t unread_bytes() const { return unread_.size(); }

 private:
  std::string unread_;  ///< the beginning of a line
};

/// Writes all of `text` and waits for the other end to take it. UNAVAILABLE if the descriptor is gone.
absl::Status write_all(int descriptor, std::string_view text);

}  // namespace verbena::job
