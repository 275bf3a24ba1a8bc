// What the processes of a job say to one another between fences, if the job goes on when some of them die:
// rank 0 tells the others news, they say words to it, and it hears who is gone.
//
// Thread safety: any thread may call. Listeners are called by a thread of the rendezvous: they must not call
// it, and must not wait.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace verbena::job {

class PeerNews {
 public:
  struct Listener {
    /// Rank 0 has told this; it hears so itself, too.
    std::function<void(std::string_view news)> on_news;
    /// Of rank 0: a process has said this.
    std::function<void(std::uint32_t rank, std::string_view word)> on_word;
    /// Of rank 0: one of those that are outlived is gone, or cannot be heard any more.
    std::function<void(std::uint32_t rank, const std::string& why)> on_gone;
    /// Of another rank: rank 0 is gone, and this process waits for another one.
    std::function<void()> on_leader_gone;
    /// Of another rank: what another rank 0 is to know of this process. Empty: it cannot wait for one yet.
    std::function<std::string()> describe;
    /// Of one that was added: it has that rank from now on, in the place of another process (give_place()).
    std::function<void(std::uint32_t rank)> on_place;
  };
  struct Returned {
    std::uint32_t rank = 0;
    std::string described;  ///< as its listener has
  };

  /// Of a rank 0 whose end others may outlive.
  struct Standing {
    enum class Leads : std::uint8_t {
      kYes,
      /// This process may have been stopped, for so long that the others look for another rank 0. Until it is
      /// known whether at least half of them still follow this one it must decide nothing: the other one
      /// would not know it (docs/decisions/0066-rank-0-may-die.md).
      kPerhaps,
      kNoMore,  ///< and is about to end
    };
    Leads leads = Leads::kYes;
    std::chrono::steady_clock::time_point doubted_at{};  ///< the last moment of doubt, now or before
  };

  virtual ~PeerNews() = default;

  /// From now on these are called. To be called before the fence after which others tell news. An empty
  /// listener ends it: when the call returns, no function of the one before will be called.
  virtual void listen(Listener listener) = 0;
  /// Rank 0: from now on the end of one of these processes is not the end of all. When one has been
  /// dismissed, another process of its rank may come (PeerRendezvous::is_late()). And others may be added,
  /// with ranks after those of the job's beginning, whose end is not the end of all either.
  virtual void outlive(const std::vector<std::uint32_t>& ranks) = 0;
  /// All: the end of rank 0 is not the end of the others, which wait so long for another process in its
  /// place. If others may wait, a rank 0 that has lost more than half of them at once ends, since they may
  /// have another one. 0: they do not wait.
  virtual void outlive_leader(std::chrono::milliseconds patience) = 0;
  /// Of a rank 0 whose incarnation() is more than 0, after the first fence: those who have come back to it.
  /// It hears of all others that they are gone.
  [[nodiscard]] virtual std::vector<Returned> returned() = 0;
  /// Rank 0: all are told so, in the order of the calls.
  virtual void tell(const std::string& news) = 0;
  /// Rank 0: that process is told so, if it is there; what it is told comes in the order of the calls, also
  /// of those of tell().
  virtual void tell_one(std::uint32_t rank, const std::string& news) = 0;
  /// Rank 0: a process will be added, with the rank that this returns.
  virtual std::uint32_t keep_place() = 0;
  /// Rank 0: whether it may decide.
  [[nodiscard]] virtual Standing standing() { return {}; }
  /// Rank 0: the process that was added as `added` has that rank from now on, as one that has come in the
  /// place of the one before, and hears so. If that rank is not free, it is dismissed instead; if it is gone,
  /// nothing happens.
  virtual void give_place(std::uint32_t added, std::uint32_t rank) = 0;
  /// To rank 0.
  virtual void say(const std::string& word) = 0;
  /// Rank 0: the process has no place in the job any more. It is told so if it can be reached, now or later,
  /// and then ends; nothing that it says is heard. Words of one that comes in its place are heard after this.
  virtual void dismiss(std::uint32_t rank, const std::string& why) = 0;
  /// As dismiss(), but the process has asked for it, learns it from what all are told, and ends by itself.
  virtual void release(std::uint32_t rank) = 0;

 protected:
  PeerNews() = default;
  PeerNews(const PeerNews&) = default;
  PeerNews& operator=(const PeerNews&) = default;
};

}  // namespace verbena::job
