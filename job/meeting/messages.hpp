// What the processes of a job say to one another at a rendezvous over a network: beside what fence_board.hpp
// has, this. Each is one JSON object in a line of its own. What the other end has said is checked before it
// is used.
//
//   a process   {"looks_for": mark}     before all else, of one that has been led there by etcd: whether this
//                                       is the process that has made the entry (leader_entry.hpp)
//               {"rank": r, "size": n, "version": v}
//                                       first
//               {"back": r, "size": n, "incarnation": i, "job": id, "led_by": l, "roster": …, "word": text}
//                                       first, of one whose rank 0 is gone: it looks for another one; also
//                                       "names", as it was told them, and "version"
//               {"knows": n}            that roster
//               {"joins": true, "size": n, "version": v}
//                                       first, of one that is added while the job runs
//               {"abort": why}          all are to end
//               {"word": text}          to rank 0 (peer_news.hpp)
//               {"bye": true}           it ends on purpose
//               {"follows": n}          the answer to the n-th question whether it still does
//   rank 0      {"is_it": whether}      to one that looks for somebody
//               {"job": id, "version": v}
//                                       at first: which job it is of all that meet at this address
//               {"roster": …}           the job's processes (roster.hpp)
//               {"names": texts}        what they are called, by rank, for people
//               {"recall": true}        to one that is back: it is to say what was told at fences
//               {"leads": l, "version": v}
//                                       to those who are back: from now on this is rank 0, after l others
//               {"beat": true}          to all, twice in a second: it is not stopped
//               {"asks": n}             to all, if it may have been: whether they still follow it
//               {"place": r}            to a process that is added: its rank, if it does not know it; later,
//                                       that it has that one from now on, in the place of the process
//                                       before. "late" follows
//               {"late": n}             to the n-th process that comes in the place of the first one of its
//                                       rank; 1 to one that is added
//               {"missing": ranks}      now and then, while a fence lacks some
//               {"lost": why}           no fence can be passed any more: one of them is gone
//               {"refused": why}        to a process that cannot be of this job; one that is back looks on
//               {"end": why}            all are to end
//               {"news": text}          to all, or to one (peer_news.hpp)
//               {"dismissed": why}      to a process that is to end, and whose end does not matter
//               {"bye": true}           it ends on purpose, and nobody watches any more
//
// Who speaks another version is refused, and refuses, before anything else is taken from it. For that, what
// comes first, "version" in it, and "refused" stay as they are in all versions.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "job/json_line.hpp"
#include "job/roster.hpp"

namespace verbena::job {

/// Of what is said here, and at fences. Whoever changes that raises it. Before 2 nobody said it.
inline constexpr std::uint32_t kMeetingVersion = 2;

/// The names in them; mostly one of them is all that a line has.
namespace says {
inline constexpr const char* kLooksFor = "looks_for";
inline constexpr const char* kIsIt = "is_it";
inline constexpr const char* kRank = "rank";
inline constexpr const char* kSize = "size";
inline constexpr const char* kVersion = "version";
inline constexpr const char* kBack = "back";
inline constexpr const char* kIncarnation = "incarnation";
inline constexpr const char* kLedBy = "led_by";
inline constexpr const char* kKnows = "knows";
inline constexpr const char* kJoins = "joins";
inline constexpr const char* kAbort = "abort";
inline constexpr const char* kWord = "word";
inline constexpr const char* kBye = "bye";
inline constexpr const char* kFollows = "follows";
inline constexpr const char* kJob = "job";
inline constexpr const char* kRoster = "roster";
inline constexpr const char* kNames = "names";
inline constexpr const char* kRecall = "recall";
inline constexpr const char* kLeads = "leads";
inline constexpr const char* kBeat = "beat";
inline constexpr const char* kAsks = "asks";
inline constexpr const char* kPlace = "place";
inline constexpr const char* kLate = "late";
inline constexpr const char* kMissing = "missing";
inline constexpr const char* kLost = "lost";
inline constexpr const char* kRefused = "refused";
inline constexpr const char* kEnd = "end";
inline constexpr const char* kNews = "news";
inline constexpr const char* kDismissed = "dismissed";
}  // namespace says

/// Made by chance: tells what it names from all others, as one job from those that meet at the same address.
std::string fresh_name();

std::string dismissed_line(const std::string& why);
/// Of rank 0.
std::string refused_line(const std::string& why);

/// Why `who`, which has said `first` before all else, cannot be understood by `self`, this process; empty: it
/// can.
std::string obstacle_of_version(const nlohmann::json& first, std::string_view who, std::string_view self);

/// What a process says of itself that has lost its rank 0, and looks for another one.
struct Back {
  std::uint32_t rank = 0;
  std::uint32_t size = 0;  ///< of the job at its beginning
  std::uint32_t incarnation = 0;
  std::string job;
  std::uint32_t led_by = 0;             ///< which rank 0 it has followed: how many had been before that one
  Roster roster;                        ///< the newest one that it knows; empty: none
  std::string word;                     ///< PeerNews::Listener::describe
  std::vector<std::string> names = {};  ///< of all, by rank, as far as it was told them
};

/// Empty: they are none.
std::vector<std::string> names_in(const nlohmann::json& object);

std::string back_line(const Back& back);
/// nullopt: no process of a job of that size can be this.
std::optional<Back> back_in(const nlohmann::json& object, std::uint32_t size);

}  // namespace verbena::job
