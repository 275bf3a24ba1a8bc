// Connections that were refused: said in the log, but not more often than now and then, however many come.
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
