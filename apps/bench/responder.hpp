// The other side of every measurement: it opens memory to the measuring side (client.hpp), answers what
// arrives there, and runs servers and perftest's servers for it. It uses one thread, and one more for each
// server.
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

  /// Listens at `address`. ALREADY_EXISTS if someone else listens there.
  static absl::StatusOr<std::unique_ptr<Responder>> create(const Backend& backend,
                                                           const std::string& address);

  /// The address to which the measuring side connects.
  [[nodiscard]] virtual const std::string& address() const = 0;
  /// Serves one measuring side after the other until *stop is true. Whoever sets *stop calls interrupt().
  virtual absl::Status run(const std::atomic<bool>& stop) = 0;
  virtual void interrupt() = 0;

 protected:
  Responder() = default;
};

}  // namespace verbena::apps::bench
