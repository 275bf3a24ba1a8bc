// Reports refused connections in the log, but at most one line per kQuiet, however many connections come.
#pragma once

#include <cstdint>
#include <string_view>

#include "transport/transport.hpp"

namespace verbena::transport {

class Refusals {
 public:
  static constexpr std::chrono::seconds kQuiet{10};  ///< between two lines

  void note(TimePoint now, std::string_view why);

 private:
  std::uint64_t unsaid_ = 0;
  TimePoint next_line_ = TimePoint::min();
};

}  // namespace verbena::transport
