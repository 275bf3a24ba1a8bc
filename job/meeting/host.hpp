// Rank 0 at a rendezvous over a network.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/own_time.hpp"
#include "job/fence_board.hpp"
#include "job/meeting/hearing.hpp"
#include "job/meeting/newcomers.hpp"
#include "job/meeting/options.hpp"
#include "job/meeting/returned_processes.hpp"
#include "job/meeting/role.hpp"
#include "job/meeting/seats.hpp"
#include "job/meeting/shared_end.hpp"
#include "job/roster.hpp"
#include "transport/transport.hpp"

namespace verbena::job {

/// Gives seats to those who come, lets all go on who have come to a fence, tells the others what is to be
/// told, and ends the job when one of them is missing. If those come whose job has lost its rank 0, it may
/// take over that job.
class MeetingHost final : public MeetingRole {
 public:
  using Clock = std::function<transport::TimePoint()>;

  /// All must outlive it, but the options. `transport` listens. `mark`: what tells this process from others
  /// to those who were led to it (leader_entry.hpp).
  MeetingHost(const MeetingOptions& options, transport::Transport& transport, std::string mark,
              Hearing& hearing, SharedEnd& end, Clock clock = std::chrono::steady_clock::now);

  void begin_turn(transport::TimePoint now) override;
  void on_own_words(std::string_view words) override;
  void on_event(const transport::Event& event) override;
  void on_time(transport::TimePoint now) override;
  [[nodiscard]] bool try_to_say_all() override;

  void outlive(const std::vector<std::uint32_t>& ranks) override;
  void tell(const std::string& news) override;
  void tell_one(std::uint32_t rank, const std::string& news) override;
  void dismiss(std::uint32_t rank, const std::string& why) override;
  void release(std::uint32_t rank) override;
  void give_place(std::uint32_t added, std::uint32_t rank) override;
  void outlive_leader(std::chrono::milliseconds patience) override;
  void on_listen() override;
  std::vector<PeerNews::Returned> returned() override { return have_returned_; }
  std::uint32_t keep_place() override { return seats_.add(); }
  PeerNews::Standing standing() override;

 private:
  // Who comes:
  [[nodiscard]] bool introduce(Newcomer& newcomer);
  [[nodiscard]] bool answer_whether_it_is(Newcomer& newcomer, const std::string& mark);
  [[nodiscard]] bool refuse_version_of(Newcomer& newcomer, const nlohmann::json& object,
                                       const std::string& why);
  [[nodiscard]] bool take_back(Newcomer& newcomer, const nlohmann::json& object);
  [[nodiscard]] std::string obstacle(std::optional<std::uint32_t> rank,
                                     std::optional<std::uint32_t> size) const;
  [[nodiscard]] std::string another_has_come(std::uint32_t rank) const;
  [[nodiscard]] bool is_free(std::uint32_t rank) const;
  void seat(Newcomer& newcomer, std::uint32_t rank);
  void give_seats();
  [[nodiscard]] std::size_t most_without_seat() const { return seats_.size() + kMostNewcomers; }

  // What they say:
  void on_message(const transport::Event& event);
  void on_line(std::uint32_t rank, std::string_view line);
  void on_word(std::uint32_t rank, const std::string& word);
  void on_goodbye(std::uint32_t rank);
  void on_line_of_late(std::uint32_t rank, const nlohmann::json& object);
  void on_own_line_when_late(const nlohmann::json& object);
  void let_go(const std::string& heard);
  void remind();
  void remind_with(const std::string& missing);

  // Who is gone:
  void on_gone(const transport::Connection* connection);
  void lose(std::uint32_t rank, const std::string& why);
  void lose_outlived(std::uint32_t rank, const std::string& why);
  void lack(const std::string& why);
  void end_all(std::uint32_t by, const std::string& why);
  void tell_all_for_good(const std::string& words);

  // Of a job whose rank 0 is gone:
  void take_over();
  void tell_roster(transport::TimePoint now);
  void tell_names();
  [[nodiscard]] bool is_certainly_without(const Back& back) const;

  // Of one that may have been stopped, while others can have another rank 0:
  struct Loss {
    std::uint32_t rank = 0;
    std::uint32_t incarnation = 0;
    std::string why;
  };
  [[nodiscard]] bool seems_stopped(transport::TimePoint now) const;
  [[nodiscard]] bool has_to_wait(std::function<void()> order);
  [[nodiscard]] bool is_not_to_tell(std::function<void()> order);
  void begin_doubt();
  void settle_doubt(transport::TimePoint now);
  void end_doubt();
  void note(Loss loss);
  void give_up(const std::string& why);
  struct Doubt;
  [[nodiscard]] std::vector<Roster::Place> places_of_followers(const Doubt* doubt) const;

  const std::uint32_t size_;  ///< of the job at its beginning
  const std::chrono::milliseconds before_place_is_free_;
  const std::chrono::milliseconds before_giving_up_;
  const std::string mark_;
  const Clock clock_;
  base::OwnTime own_time_;  ///< of which others have so much to come, and to say who they are
  transport::Transport& transport_;
  Hearing& hearing_;
  SharedEnd& end_;
  std::string job_;  ///< its name
  FenceBoard board_;
  Seats seats_;
  Newcomers newcomers_;
  ReturnedProcesses returned_;  ///< until all have met, or this rank 0 has taken over
  bool is_waited_for_ = false;  ///< some are at a fence, and not all
  transport::TimePoint next_reminder_{};
  transport::TimePoint next_warning_{};  ///< that processes of a job that runs are refused
  bool outlives_others_ = false;  ///< the end of some others is not that of all, and processes may be added
  bool has_lacked_ = false;       ///< one of those without whom no fence can be passed
  bool has_ended_ = false;        ///< all were told to
  std::string last_words_;        ///< about the end, for those who come later
  // If the job may go on when this process is gone:
  std::optional<RosterKeeper> keeper_;
  transport::TimePoint unsettled_since_{};
  std::vector<std::string> names_;  ///< of the job's processes, as all were told them
  bool leads_no_more_ = false;      ///< and ends
  /// What it knows of those who follow it, after a stop. Until they are enough, whoever is gone may have left
  /// for another rank 0, which would not know what this one decides, or had decided before the stop.
  struct Doubt {
    transport::TimePoint since{};
    std::uint32_t question = 0;                 ///< the last one that all were asked
    std::set<std::uint32_t> have_answered;      ///< it
    std::vector<std::function<void()>> orders;  ///< of this process: carried out when it ends
    std::vector<Loss> lost;                     ///< since then: told after that
  };
  std::optional<Doubt> doubt_;
  std::uint32_t questions_ = 0;
  transport::TimePoint doubted_at_{};
  std::optional<transport::TimePoint> turn_began_at_;
  transport::TimePoint next_beat_{};
  // If this process has taken over:
  std::vector<PeerNews::Returned> have_returned_;
  bool has_told_who_is_gone_ = false;
  std::vector<std::pair<std::uint32_t, std::string>> held_words_;  ///< by whom
};

}  // namespace verbena::job
