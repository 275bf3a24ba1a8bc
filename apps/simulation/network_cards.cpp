#include "apps/simulation/network_cards.hpp"

#include <algorithm>
#include <cmath>

namespace verbena::simulation {

using transport::Duration;
using transport::TimePoint;

std::uint32_t NetworkCards::add() {
  cards_.emplace_back();
  return static_cast<std::uint32_t>(cards_.size() - 1);
}

Duration NetworkCards::on_the_card(std::size_t bytes) const {
  if (options_.bits_per_second <= 0) return Duration::zero();
  // A transfer without payload is one packet, too.
  const std::size_t packets =
      std::max<std::size_t>(1, (bytes + options_.packet_bytes - 1) / options_.packet_bytes);
  const auto bits = 8 * static_cast<double>(bytes + packets * options_.header_bytes);
  return Duration(std::llround(bits / options_.bits_per_second * 1e9));
}

TimePoint NetworkCards::send(std::uint32_t number, std::size_t bytes, TimePoint now) {
  Card& card = cards_[number];
  const Duration busy = on_the_card(bytes);
  card.sending_until = std::max(card.sending_until, now) + busy;
  card.traffic.bytes_out += bytes;
  card.traffic.sending += busy;
  return card.sending_until + options_.latency;
}

TimePoint NetworkCards::receive(std::uint32_t number, std::size_t bytes, TimePoint now) {
  Card& card = cards_[number];
  const Duration busy = on_the_card(bytes);
  // The first byte came when the sender's card began; the card could take in the transfer from then on.
  card.receiving_until = std::max(card.receiving_until + busy, now);
  card.traffic.bytes_in += bytes;
  card.traffic.receiving += busy;
  return card.receiving_until;
}

}  // namespace verbena::simulation
