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
  std::string step;  ///< the last step that was tried, such as "registering 1 MiB of memory"
  absl::Status status;
};

using MakeTransport = std::function<absl::StatusOr<std::unique_ptr<transport::Transport>>()>;

/// Listens at `address`, then connects to what `listening_address` returns for the listener. If that is
/// empty, the trial succeeds after listening, because the address to connect to is not known. Ends within
/// some seconds.
Trial try_transport(const MakeTransport& make_transport, const std::string& address,
                    const std::function<std::string(const transport::Transport&)>& listening_address);

}  // namespace verbena::apps::doctor
