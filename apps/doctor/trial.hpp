// Tries a transport on this host: a region, a connection of the process with itself, a read over it.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "transport/transport.hpp"

namespace verbena::apps::doctor {

constexpr std::size_t kTrialRegionBytes = 1 << 20;

struct Trial {
  std::string step;  ///< the last that was tried, such as "registering 1 MiB of memory"
  absl::Status status;
};

using MakeTransport = std::function<absl::StatusOr<std::unique_ptr<transport::Transport>>()>;

/// Listens at `address`; connects to what `listening_address` then says of the listener. Where that is empty
/// the trial ends well after listening: its peer's address is not known. Ends within some seconds.
Trial try_transport(const MakeTransport& make_transport, const std::string& address,
                    const std::function<std::string(const transport::Transport&)>& listening_address);

}  // namespace verbena::apps::doctor
