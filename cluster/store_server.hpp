// Lets other processes of the job use a store that this process holds, over Unix sockets. Each connection
// proves that it belongs to the job before anything is done for it.
//
// Step-driven, as Store is. No client can harm: what it says is bounded and checked; it is heard no further
// as long as it does not take its answers; whoever says what no client says is cut off.
#pragma once

#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/file_descriptor.hpp"
#include "cluster/frame_stream.hpp"
#include "cluster/store_messages.hpp"
#include "cluster/store_state.hpp"
#include "transport/refusals.hpp"
#include "transport/secret.hpp"

namespace verbena::cluster {

/// Thread safety: belongs to one thread.
class StoreServer {
 public:
  static constexpr std::size_t kMostClients = 1024;
  static constexpr std::size_t kMostStrangers = 64;  ///< who have not proved themselves yet
  static constexpr Duration kStrangerPatience = std::chrono::seconds(10);

  /// Listens at `name`, which is for processes of this user in this network namespace. ALREADY_EXISTS:
  /// another process does. REQUIRES: `state` outlives it.
  static absl::StatusOr<std::unique_ptr<StoreServer>> listen(const std::string& name,
                                                             std::shared_ptr<const transport::Secret> secret,
                                                             StoreState& state);
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  void add_descriptors(std::vector<pollfd>& wanted) const;
  /// As Store::next_poll().
  [[nodiscard]] TimePoint next_poll() const;
  void poll(TimePoint now);

  /// Connections, strangers among them.
  [[nodiscard]] std::size_t connections() const { return clients_.size(); }

 private:
  struct Watch {
    std::string prefix;
    Revision next = 0;
  };
  struct Client {
    FrameStream stream;
    TimePoint deadline;  ///< of its proof
    bool is_challenged = false;
    bool is_proved = false;
    transport::Nonce ours{};  ///< and `theirs`: once challenged
    transport::Nonce theirs{};
    std::map<std::uint64_t, Watch> watches;

    /// It takes its answers, more or less.
    [[nodiscard]] bool is_heard() const;
  };

  StoreServer(base::FileDescriptor listener, std::shared_ptr<const transport::Secret> secret,
              StoreState& state)
      : listener_(std::move(listener)), secret_(std::move(secret)), state_(state) {}

  void accept(TimePoint now);
  /// False: it is to be cut off.
  bool hear(Client& client, TimePoint now);
  bool hear_stranger(Client& client, std::string_view frame);
  bool hear_client(Client& client, std::string_view frame, TimePoint now);
  void tell_watches(Client& client);

  const base::FileDescriptor listener_;
  const std::shared_ptr<const transport::Secret> secret_;
  StoreState& state_;
  std::list<Client> clients_;
  transport::Refusals refusals_;
};

}  // namespace verbena::cluster
