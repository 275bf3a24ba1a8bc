// The other side of every measurement: opens memory to the measuring side (client.hpp), answers what arrives
// there, runs servers and perftest's servers for it. One thread, and one for each server.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "apps/bench/backend.hpp"

namespace verbena::apps::bench {

class Responder {
 public:
  virtual ~Responder() = default;
  Responder(const Responder&) = delete;
  Responder& operator=(const Responder&) = delete;

  /// Listens. ALREADY_EXISTS if someone else does so there.
  static absl::StatusOr<std::unique_ptr<Responder>> create(const Backend& backend,
                                                           const std::string& address);

  /// Where the measuring side connects.
  [[nodiscard]] virtual const std::string& address() const = 0;
  /// Serves one measuring side after the other until *stop. Whoever sets *stop calls interrupt().
  virtual absl::Status run(const std::atomic<bool>& stop) = 0;
  virtual void interrupt() = 0;

 protected:
  Responder() = default;
};

}  // namespace verbena::apps::bench
