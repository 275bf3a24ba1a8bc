// What a network costs if cards and wires decide, not chance. Each node has one card, which sends one thing
// after the other and receives in the same way, whoever the peers are. Between any two cards lies a wire, all
// of the same latency. The network in between is no bottleneck, as with a switch of full bisection bandwidth.
//
//   posted ─▶ sender's card, one after the other ─▶ wire ─▶ receiver's card, one after the other ─▶ there
//
// A card takes in a transfer while it arrives: a transfer that meets no other one takes its time on the card
// once, and the latency. Transfers that are booked when they begin are served in the order of beginning, so
// bookings must be made in the order of time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "transport/transport.hpp"

namespace verbena::simulation {

class NetworkCards {
 public:
  struct Options {
    transport::Duration latency{0};  ///< latency of a wire
    double bits_per_second = 0;      ///< rate of a card, in each direction; 0: no bound
    std::size_t packet_bytes = 4096;
    std::size_t header_bytes = 0;  ///< of each packet, in addition to its packet_bytes
  };
  /// Traffic since the beginning, including what is booked ahead.
  struct Traffic {
    std::uint64_t bytes_out = 0;  ///< without headers
    std::uint64_t bytes_in = 0;
    transport::Duration sending{0};
    transport::Duration receiving{0};
  };

  explicit NetworkCards(const Options& options) : options_(options) {}

  /// Adds a card and returns its number; numbers count from 0.
  std::uint32_t add();
  /// For a transfer posted at `now`, returns when its last byte is at the receiver's card.
  transport::TimePoint send(std::uint32_t card, std::size_t bytes, transport::TimePoint now);
  /// For a transfer whose last byte is at the receiver's card at `now`, returns when the card has taken it
  /// in.
  transport::TimePoint receive(std::uint32_t card, std::size_t bytes, transport::TimePoint now);

  [[nodiscard]] transport::Duration latency() const { return options_.latency; }
  [[nodiscard]] const Traffic& traffic(std::uint32_t card) const { return cards_[card].traffic; }

 private:
  struct Card {
    transport::TimePoint sending_until;
    transport::TimePoint receiving_until;
    Traffic traffic;
  };
  [[nodiscard]] transport::Duration on_the_card(std::size_t bytes) const;

  const Options options_;
  std::vector<Card> cards_;
};

}  // namespace verbena::simulation
