// Which process is which server of a job, at a time: the configuration. Configurations are numbered; whoever
// decides about a change (on one host the launcher) makes the next one, and each number names one value.
//
// Each server of a job is a chain of processes, its copies. The first one serves: workers talk to it alone.
// Each other one follows the one before it, and has all that anybody was told of (server/log.hpp). When the
// first one is gone, the next configuration begins with the second: it has all that is needed to serve. A
// copy that joins while the job runs follows the last one, and is of the chain when it has all that the
// others have.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "transport/transport.hpp"

namespace verbena::cluster {

struct Configuration {
  using Chain = std::vector<std::string>;  ///< addresses; a process that is started anew has another one

  std::uint64_t number = 0;    ///< 0: none is known yet
  std::vector<Chain> servers;  ///< by rank; an empty one: nothing is left of that server
  /// By rank, too: the copy that is joining, and cannot take anybody's place yet; empty: there is none.
  /// Those at the end may be left out.
  std::vector<std::string> joining;

  /// The chain, and who is joining it, as its last one.
  [[nodiscard]] Chain all_of(std::uint32_t server) const;
  /// Empty: nobody.
  [[nodiscard]] std::string joining_of(std::uint32_t server) const {
    return server < joining.size() ? joining[server] : std::string();
  }

  bool operator==(const Configuration&) const = default;
};

/// So long after a change sources go on to look for another one often: who is told that a process is gone may
/// find an older change first, which it had not looked for; and one change makes others.
inline constexpr auto kTimeOfChange = std::chrono::milliseconds(200);

/// As it lies in the store: JSON.
std::string encode(const Configuration& configuration);
/// INVALID_ARGUMENT: it is none. Says what is wrong.
absl::StatusOr<Configuration> decode_configuration(std::string_view text);

/// Where a process looks for the newest configuration. What it finds may be behind, but never goes back.
///
/// Step-driven. Thread safety: belongs to one thread.
class ConfigurationSource {
 public:
  virtual ~ConfigurationSource() = default;

  [[nodiscard]] virtual const Configuration& newest() const = 0;
  /// The number of the newest configuration that leaves out somebody; less than 2: there is none. It is read
  /// from memory that whoever decides shares, which is never behind: the number is there when the processes
  /// that the configuration leaves out have ended, and before anybody can know the configuration. So whoever
  /// finds no number beyond the configuration that it goes by knows that no server of a later one has done
  /// anything yet.
  ///
  /// If those who are left out may go on (ends_who_is_left_out() is false), it is the newest number that this
  /// process has heard of, and promises nothing.
  [[nodiscard]] virtual std::uint64_t decided() const = 0;
  /// Whoever decides has ended a process before anybody hears of a configuration that leaves it out. False:
  /// it may be stopped, or out of reach, on another host, and go on as if nothing had been decided. What it
  /// says then, it could have said before (docs/decisions/0055-copies-on-several-hosts.md). Its peers leave
  /// it by themselves.
  [[nodiscard]] virtual bool ends_who_is_left_out() const { return true; }
  /// Whoever decides may be gone for so long, until another process does: a change comes so much later then.
  [[nodiscard]] virtual std::chrono::milliseconds longest_absence() const {
    return std::chrono::milliseconds(0);
  }
  virtual void poll(transport::TimePoint now) = 0;
  /// When poll() has something to do; it never tells of a change by itself.
  [[nodiscard]] virtual transport::TimePoint next_poll() const = 0;
  /// A process is gone: there will be another configuration soon.
  virtual void expect_change() = 0;
  /// The process at that address shows no sign of life. Whoever decides may end it, and then makes a
  /// configuration without it. May be said again and again.
  virtual void suspect(const std::string& address, const std::string& why) = 0;
  /// The copy at that address, this process's, was joining, and has all that the others have.
  virtual void has_joined(const std::string& address) = 0;
};

}  // namespace verbena::cluster
