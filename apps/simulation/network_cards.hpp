// What a network costs where cards and wires decide, not chance: each node has one card, which sends one
// thing after the other and receives so, whoever the peers are; between any two cards lies a wire of the same
// latency. What is in between is no bottleneck, as with a switch of full bisection bandwidth.
//
//   posted ─▶ sender's card, one after the other ─▶ wire ─▶ receiver's card, one after the other ─▶ there
//
// A card takes in while it comes: a transfer that meets nobody takes its time on the card once, and the
// latency. What is booked when it begins is served in the order of beginning, so bookings are to be made in
// order of time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "transport/transport.hpp"

namespace verbena::simulation {

class NetworkCards {
 public:
  struct Options {
    transport::Duration latency{0};  ///< of a wire
    double bits_per_second = 0;      ///< of a card, in each direction; 0: no bound
    std::size_t packet_bytes = 4096;
    std::size_t header_bytes = 0;  ///< of each packet, beside its packet_bytes
  };
  /// Since the beginning; what is booked ahead counts.
  struct Traffic {
    std::uint64_t bytes_out = 0;  ///< without headers
    std::uint64_t bytes_in = 0;
    transport::Duration sending{0};
    transport::Duration receiving{0};
  };

  explicit NetworkCards(const Options& options) : options_(options) {}

  /// A further card; they count from 0.
  std::uint32_t add();
  /// Posted at `now`: when its last byte is at the receiver's card.
  transport::TimePoint send(std::uint32_t card, std::size_t bytes, transport::TimePoint now);
  /// Its last byte is at the receiver's card at `now`: when the card has taken it in.
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
