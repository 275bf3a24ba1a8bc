// What a thread uses in place of something that its host has: of a simulated host, whose processes are all in
// one thread.
#pragma once

#include <utility>

namespace verbena::base {

/// In the thread that has made it, `service` is what there is, as long as this lives and no later one does.
/// Thread safety: each thread has its own; made and destroyed in the same one, the last one first.
template <class Service>
class StandIn {
 public:
  explicit StandIn(Service& service) : before_(std::exchange(current, &service)) {}
  ~StandIn() { current = before_; }
  StandIn(const StandIn&) = delete;
  StandIn& operator=(const StandIn&) = delete;

  /// This thread's; nullptr: it has none, and uses the host's.
  [[nodiscard]] static Service* get() { return current; }

 private:
  static inline thread_local Service* current = nullptr;
  Service* before_;
};

}  // namespace verbena::base
