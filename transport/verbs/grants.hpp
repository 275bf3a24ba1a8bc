// The memory that the two ends of a connection let each other reach: windows that were granted to the peer
// and are not bound yet, and, between two processes of one host, the socket over which memory files are
// passed (neighbours.hpp).
//
// A peer may use a descriptor as soon as it has it. So the windows are bound before anything is posted that
// could carry one: nothing else goes out while all_bound() is false. For the transport's thread only.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "transport/transport.hpp"
#include "transport/verbs/hub.hpp"
#include "transport/verbs/meeting.hpp"
#include "transport/verbs/sender.hpp"

namespace verbena::transport::verbs {

class Grants {
 public:
  struct Grant {
    RemoteDescriptor descriptor;
    bool fresh = false;  ///< a window is to be bound for it
  };

  /// Of the connection `owner`, which meets its peer in `meeting`. All references outlive it.
  Grants(Hub& hub, const VerbsConnection& owner, const Meeting& meeting)
      : hub_(hub), owner_(owner), meeting_(meeting) {}

  /// `peer` is for errors.
  absl::StatusOr<Grant> add(const MemoryRegion& region, std::string_view peer);
  [[nodiscard]] bool all_bound() const { return unbound_.empty(); }
  /// Adds the binding of as many windows as there is room for.
  void bind(Sender& sender);
  /// Nothing will be bound any more.
  void drop_unbound() { unbound_.clear(); }

  /// The connector has found the listener on this host; or nullptr.
  void set_neighbour(std::unique_ptr<Neighbour> neighbour) { neighbour_ = std::move(neighbour); }
  /// Passes the region, which was granted by that descriptor, to the peer if it is on this host. Returns the
  /// descriptor by which the peer finds it. REQUIRES: the region is a VerbsRegion and kRemoteReadHostWrite.
  RemoteDescriptor pass(const MemoryRegion& region, RemoteDescriptor descriptor);
  /// What the peer has passed; nullptr if it has not passed that.
  std::byte* find(const RemoteDescriptor& remote);

 private:
  Neighbour* neighbour();

  Hub& hub_;
  const VerbsConnection& owner_;
  const Meeting& meeting_;
  std::vector<Windows::Binding> unbound_;  ///< windows that were granted and are not bound yet
  std::unique_ptr<Neighbour> neighbour_;   ///< if the peer is on this host and has come
};

}  // namespace verbena::transport::verbs
