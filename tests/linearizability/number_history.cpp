#include "tests/linearizability/number_history.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <functional>
#include <utility>

namespace verbena::linearizability {

Digits::Digits(std::uint32_t workers, int bits)
    : workers_(workers),
      bits_of_each_(bits / static_cast<int>(workers)),
      largest_digit_((std::uint64_t{1} << bits_of_each_) - 1) {
  assert(bits <= 53 && bits_of_each_ >= 2);
}

double Digits::update(std::uint32_t worker) const {
  return std::ldexp(1.0, static_cast<int>(worker) * bits_of_each_);
}

std::optional<std::vector<std::uint64_t>> Digits::pushes_in(double number) const {
  const double end = update(workers_);
  if (!(number >= 0 && number < end) || number != std::floor(number)) return std::nullopt;
  auto rest = static_cast<std::uint64_t>(number);
  std::vector<std::uint64_t> pushes(workers_);
  for (std::uint64_t& of_one : pushes) {
    of_one = rest & largest_digit_;
    rest >>= bits_of_each_;
  }
  return pushes;
}

void NumberHistory::begin_push(std::uint32_t worker, Time now) {
  std::vector<Push>& pushes = pushes_[worker];
  assert(pushes.size() < digits_.most_pushes() && (pushes.empty() || pushes.back().begun <= now));
  pushes.push_back({.begun = now});
}

void NumberHistory::end_pushes(std::uint32_t worker, Time now) {
  std::vector<Push>& pushes = pushes_[worker];
  for (auto push = pushes.rbegin(); push != pushes.rend() && push->ended == kNever; ++push) push->ended = now;
}

void NumberHistory::add_pull(std::uint32_t worker, Time begun, Time ended, double number) {
  Pull pull{.worker = worker, .begun = begun, .ended = ended, .number = number, .holds = {}};
  if (auto holds = digits_.pushes_in(number)) {
    pull.holds = *std::move(holds);
    for (const std::uint64_t pushes : pull.holds) pull.size += pushes;
  }
  pulls_.push_back(std::move(pull));
}

bool NumberHistory::are_in_a_row(std::vector<const Pull*> pulls) {
  std::sort(pulls.begin(), pulls.end(), [](const Pull* a, const Pull* b) { return a->size < b->size; });
  for (std::size_t i = 1; i < pulls.size(); ++i) {
    const std::vector<std::uint64_t>& less = pulls[i - 1]->holds;
    const std::vector<std::uint64_t>& more = pulls[i]->holds;
    if (!std::equal(less.begin(), less.end(), more.begin(), std::less_equal<>())) return false;
  }
  auto smaller = pulls.begin();
  Time begun = 0;  // the latest beginning of the pulls that hold less
  for (const Pull* pull : pulls) {
    for (; (*smaller)->size < pull->size; ++smaller) begun = std::max(begun, (*smaller)->begun);
    if (pull->ended < begun) return false;
  }
  return true;
}

std::optional<std::string> NumberHistory::wrong_by_itself(const Pull& pull) const {
  if (pull.holds.empty()) return fmt::format("holds {}, which no sum of pushes makes", pull.number);
  std::optional<PushName> last_begun;   // of the pushes that the pull holds
  std::optional<PushName> first_ended;  // of the pushes that the pull misses
  for (std::uint32_t worker = 0; worker < pushes_.size(); ++worker) {
    const std::vector<Push>& pushes = pushes_[worker];
    const std::uint64_t held = pull.holds[worker];
    if (held > pushes.size())
      return fmt::format("holds {} pushes of worker {}, which has made {}", held, worker, pushes.size());
    if (held > 0) {
      const PushName name{worker, held - 1};
      if (!last_begun || push(name).begun > push(*last_begun).begun) last_begun = name;
    }
    if (held < pushes.size()) {
      const PushName name{worker, held};
      if (!first_ended || push(name).ended < push(*first_ended).ended) first_ended = name;
    }
  }
  if (last_begun && push(*last_begun).begun > pull.ended) {
    return fmt::format("holds push {} of worker {}, which began only at {}", last_begun->index + 1,
                       last_begun->worker, push(*last_begun).begun);
  }
  if (first_ended && push(*first_ended).ended < pull.begun) {
    return fmt::format("misses push {} of worker {}, which had ended at {}", first_ended->index + 1,
                       first_ended->worker, push(*first_ended).ended);
  }
  if (last_begun && first_ended && push(*first_ended).ended < push(*last_begun).begun) {
    return fmt::format(
        "holds push {} of worker {}, which began at {}, and misses push {} of worker {}, which had ended at "
        "{}",
        last_begun->index + 1, last_begun->worker, push(*last_begun).begun, first_ended->index + 1,
        first_ended->worker, push(*first_ended).ended);
  }
  return std::nullopt;
}

std::optional<std::string> NumberHistory::wrong_beside(const Pull& pull, const Pull& other) {
  std::optional<PushName> missed;  // the first push that only the other pull holds
  std::optional<PushName> held;    // the first push that only this pull holds
  for (std::uint32_t worker = 0; worker < pull.holds.size(); ++worker) {
    if (pull.holds[worker] < other.holds[worker]) missed = {worker, pull.holds[worker]};
    if (pull.holds[worker] > other.holds[worker]) held = {worker, other.holds[worker]};
  }
  const std::string others =
      fmt::format("worker {}'s pull from {} to {}", other.worker, other.begun, other.ended);
  if (missed && held) {
    return fmt::format(
        "holds push {} of worker {} and misses push {} of worker {}; {} has it the other way round",
        held->index + 1, held->worker, missed->index + 1, missed->worker, others);
  }
  if (missed && other.ended < pull.begun)
    return fmt::format("misses push {} of worker {}, which {} held", missed->index + 1, missed->worker,
                       others);
  return std::nullopt;
}

std::optional<std::string> NumberHistory::violation() const {
  std::vector<const Pull*> pulls;
  for (const Pull& pull : pulls_) pulls.push_back(&pull);
  std::stable_sort(pulls.begin(), pulls.end(),
                   [](const Pull* a, const Pull* b) { return a->ended < b->ended; });
  const auto say = [](const Pull& pull, const std::string& what) {
    return fmt::format("worker {}'s pull from {} to {} {}", pull.worker, pull.begun, pull.ended, what);
  };
  std::optional<std::string> wrong;
  for (std::size_t i = 0; i < pulls.size() && !wrong; ++i) {
    if (auto what = wrong_by_itself(*pulls[i])) {
      wrong = say(*pulls[i], *what);
      pulls.resize(i);
    }
  }
  if (are_in_a_row(pulls)) return wrong;
  // The pulls are in the order of their ends. Finds, by bisection, the first one that leaves no order.
  std::size_t sound = 0;
  for (std::size_t unsound = pulls.size(); sound + 1 < unsound;) {
    const std::size_t middle = sound + (unsound - sound) / 2;
    const auto end = pulls.begin() + static_cast<std::ptrdiff_t>(middle);
    (are_in_a_row({pulls.begin(), end}) ? sound : unsound) = middle;
  }
  const Pull& last = *pulls[sound];
  std::optional<std::string> what;
  for (std::size_t other = 0; !what; ++other) what = wrong_beside(last, *pulls[other]);
  return say(last, *what);
}

}  // namespace verbena::linearizability
