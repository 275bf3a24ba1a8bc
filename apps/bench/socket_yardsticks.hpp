// What plain TCP sockets need for the same bytes, between two threads of this process, over the loopback
// interface. Neither thread ever sleeps.
#pragma once

#include <cstddef>

#include "absl/status/statusor.h"
#include "apps/bench/samples.hpp"

namespace verbena::apps::bench {

/// A request of 32 bytes that is answered by `answer_bytes`.
absl::StatusOr<Samples> time_socket_round_trip(const TimingOptions& options, std::size_t answer_bytes);

/// Bytes a second that one thread sends in pieces of so many bytes, and the other receives.
absl::StatusOr<double> time_socket_stream(const TimingOptions& options, std::size_t piece_bytes);

}  // namespace verbena::apps::bench
