// Which process of this host has a port that another one wants to have.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>

namespace verbena::base {

struct ListeningProcess {
  pid_t pid = 0;
  bool is_stopped = false;  ///< by SIGSTOP, say: it listens, and answers nobody
};

/// The process that listens at this TCP port, as far as this one may know: of its own network namespace, and
/// of its own user unless this one is root. nullopt: it is not known.
std::optional<ListeningProcess> process_that_listens_at(std::uint16_t port);

}  // namespace verbena::base
