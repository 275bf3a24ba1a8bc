#include "job/meeting/wire.hpp"

#include <algorithm>

#include "absl/status/status.h"

namespace verbena::job {

void Wire::say(std::string_view words) {
  for (; !words.empty(); words.remove_prefix(std::min<std::size_t>(words.size(), kMessageBytes)))
    static_cast<void>(outbox_.send(*connection_, std::string(words.substr(0, kMessageBytes))));
}

bool Wire::hear(std::span<const std::byte> message, const std::function<void(std::string_view line)>& take) {
  lines_.add({reinterpret_cast<const char*>(message.data()), message.size()}, take);
  return lines_.unread_bytes() <= kMostHeldBytes;
}

std::string Wire::how_it_ended() const {
  if (absl::IsDataLoss(connection_->status())) return std::string(connection_->status().message());
  return "it crashed, was killed, or its host is gone";
}

}  // namespace verbena::job
