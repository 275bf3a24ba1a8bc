#include "transport/refusals.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

namespace verbena::transport {

void Refusals::note(TimePoint now, std::string_view why) {
  if (now < next_line_) {
    ++unsaid_;
    return;
  }
  next_line_ = now + kQuiet;
  const std::string others =
      unsaid_ == 0 ? "" : fmt::format(" ({} others were since the last such line)", unsaid_);
  unsaid_ = 0;
  spdlog::warn("a connection was refused: {}{}", why, others);
}

}  // namespace verbena::transport
