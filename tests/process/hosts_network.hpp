// A network of hosts that are none: each is a network namespace of this process, and the packets between them
// go through this process, which may delay them, lose some, and break connections. Needs to be root; nothing
// of it is outside of this process, and nothing stays.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "base/file_descriptor.hpp"

namespace verbena::process_test {

class HostsNetwork {
 public:
  struct Options {
    std::size_t hosts = 2;
    std::chrono::microseconds delay{0};  ///< of each packet
    double loss = 0;                     ///< the share of packets that is lost
    /// Of so many packets one breaks its TCP connection, as a firewall does that has forgotten it; 0: none
    /// does.
    std::uint64_t reset_every = 0;
    std::uint64_t most_resets = UINT64_MAX;  ///< then they stay, so that much can get through
    std::size_t resets_to = 0;               ///< only those that were made to this host
    std::uint64_t seed = 1;
  };
  /// PERMISSION_DENIED, or another error, if the system does not let this process have it.
  static absl::StatusOr<std::unique_ptr<HostsNetwork>> make(const Options& options);
  ~HostsNetwork();
  HostsNetwork(const HostsNetwork&) = delete;
  HostsNetwork& operator=(const HostsNetwork&) = delete;

  /// IPv4.
  [[nodiscard]] static std::string address(std::size_t host);
  /// For Program: the new process is on this host.
  [[nodiscard]] std::function<void()> on(std::size_t host) const;
  [[nodiscard]] std::uint64_t forwarded() const { return forwarded_; }
  [[nodiscard]] std::uint64_t lost() const { return lost_; }
  [[nodiscard]] std::uint64_t resets() const { return resets_; }
  /// From now on no packet arrives.
  void cut() { is_cut_ = true; }
  /// From now on no packet comes from this host, or gets there.
  void cut(std::size_t host) { cut_host_ = host; }
  /// From now on they do again.
  void mend() { cut_host_ = SIZE_MAX; }

 private:
  struct Host {
    base::FileDescriptor space;   ///< its network namespace
    base::FileDescriptor device;  ///< its packets (TUN)
  };
  explicit HostsNetwork(const Options& options) : options_(options) {}
  static absl::StatusOr<Host> make_host(std::size_t number);
  void forward();
  void reset_now_and_then(std::vector<std::byte>& packet, std::size_t to);

  const Options options_;
  std::vector<Host> hosts_;
  std::atomic<bool> stop_ = false;
  std::atomic<bool> is_cut_ = false;
  std::atomic<std::size_t> cut_host_ = SIZE_MAX;
  std::atomic<std::uint64_t> forwarded_ = 0;
  std::atomic<std::uint64_t> lost_ = 0;
  std::atomic<std::uint64_t> resets_ = 0;
  // The thread's.
  std::set<std::uint16_t> ports_;  ///< where connections were made to, on Options::resets_to
  std::uint64_t may_be_reset_ = 0;
  std::thread thread_;
};

}  // namespace verbena::process_test
