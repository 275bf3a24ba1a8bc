// Any rank but 0 at a rendezvous over a network.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "job/meeting/hearing.hpp"
#include "job/meeting/leader_search.hpp"
#include "job/meeting/leader_watch.hpp"
#include "job/meeting/options.hpp"
#include "job/meeting/role.hpp"
#include "job/meeting/shared_end.hpp"
#include "job/meeting/wire.hpp"
#include "job/roster.hpp"
#include "transport/transport.hpp"

namespace verbena::job {

/// It says all to rank 0, and hears all from it. If it may, it waits for another rank 0 when that is gone, or
/// silent, and says it what it has to know.
class MeetingGuest final : public MeetingRole {
 public:
  /// All must outlive it, but the options. `leader`: to rank 0.
  MeetingGuest(const MeetingOptions& options, transport::Transport& transport,
               std::unique_ptr<transport::Connection> leader, Hearing& hearing, SharedEnd& end);

  void on_own_words(std::string_view words) override;
  void on_event(const transport::Event& event) override;
  void on_time(transport::TimePoint now) override;
  [[nodiscard]] bool try_to_say_all() override;
  void travel() override;
  [[nodiscard]] std::chrono::milliseconds turn() const override;
  void outlive_leader(std::chrono::milliseconds patience) override { patience_ = patience; }

 private:
  void take(std::string_view line);
  void leave_who_refuses();
  void lose_leader();
  void leave_leader();
  void do_without_leader(const std::string& why, const std::string& what_to_do);
  [[nodiscard]] std::string introduction() const;

  const std::optional<std::uint32_t> rank_;  ///< nullopt: rank 0 says it
  const std::uint32_t size_;
  const bool is_led_by_etcd_;  ///< to rank 0, which may be anywhere
  transport::Transport& transport_;
  Hearing& hearing_;
  SharedEnd& end_;
  std::optional<Wire> wire_;  ///< to rank 0, or to a process that may become it; nullopt: it is gone
  std::string job_;
  std::uint32_t led_by_ = 0;               ///< which rank 0 this is: how many have been before it
  Roster roster_;                          ///< the newest that rank 0 has told; empty: none
  std::vector<std::string> names_;         ///< of the job's processes, as rank 0 has told them
  std::chrono::milliseconds patience_{0};  ///< with the lack of a rank 0
  LeaderSearch search_;
  LeaderWatch watch_;
  std::string unsaid_;                  ///< while there is no rank 0
  std::optional<std::string> refusal_;  ///< why the process that was found cannot be rank 0 to this one
};

}  // namespace verbena::job
