#include "apps/launcher/shares.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <tuple>

namespace verbena::apps {
namespace {

using Loads = std::map<std::string, std::size_t>;  ///< by host

/// The holdings of all hosts, while one after the other moves to one of them.
class Plan {
 public:
  Plan(const std::string& host, std::span<const Holding> holdings, std::uint32_t copies)
      : host_(host), holdings_(holdings.begin(), holdings.end()), copies_(copies) {}

  /// `is_share`: only what makes the load even.
  std::optional<Transfer> next(bool is_share) {
    if (is_share && has_even_share()) return std::nullopt;
    std::optional<Transfer> transfer = lacking();
    if (!transfer) transfer = from_most_loaded(is_share);
    if (transfer) carry_out(*transfer);
    return transfer;
  }

 private:
  [[nodiscard]] Loads loads() const {
    Loads loads{{host_, 0}};
    for (const Holding& holding : holdings_) ++loads[holding.host];
    return loads;
  }
  [[nodiscard]] bool is_here(std::uint32_t server) const {
    return std::any_of(holdings_.begin(), holdings_.end(), [&](const Holding& holding) {
      return holding.server == server && holding.host == host_;
    });
  }

  /// By server.
  [[nodiscard]] std::map<std::uint32_t, std::size_t> copies_of() const {
    std::map<std::uint32_t, std::size_t> copies;
    for (const Holding& holding : holdings_) ++copies[holding.server];
    return copies;
  }
  /// Of all that there are to be.
  [[nodiscard]] bool has_even_share() const {
    std::size_t all = 0;
    for (const auto& [server, count] : copies_of()) all += std::max<std::size_t>(count, copies_);
    const Loads loads = this->loads();
    return loads.at(host_) >= (all + loads.size() - 1) / loads.size();
  }

  /// Of the servers with the fewest copies, the first.
  [[nodiscard]] std::optional<Transfer> lacking() const {
    std::optional<Transfer> least;
    std::size_t fewest = copies_;
    for (const auto& [server, count] : copies_of()) {
      if (count >= fewest || is_here(server)) continue;
      fewest = count;
      least = Transfer{.server = server, .replaces = std::nullopt};
    }
    return least;
  }

  [[nodiscard]] std::optional<Transfer> from_most_loaded(bool is_share) const {
    const Loads loads = this->loads();
    const Holding* best = nullptr;
    std::tuple<std::size_t, std::size_t> best_rank;
    for (const Holding& holding : holdings_) {
      if (!holding.can_move || holding.host == host_ || is_here(holding.server)) continue;
      if (is_share && loads.at(holding.host) < loads.at(host_) + 2) continue;
      // From the host with most, and so that the servers that serve stay spread.
      const std::tuple rank(loads.at(holding.host), holdings_.size() - most_serving_without(holding));
      if (best != nullptr && rank <= best_rank) continue;
      best = &holding;
      best_rank = rank;
    }
    if (best == nullptr) return std::nullopt;
    return Transfer{.server = best->server, .replaces = best->rank};
  }

  /// How many servers would serve on one host at most.
  [[nodiscard]] std::size_t most_serving_without(const Holding& leaving) const {
    Loads serving;
    for (const Holding& holding : holdings_) {
      if (holding.serves && &holding != &leaving) ++serving[holding.host];
    }
    if (leaving.serves) {
      const auto next = std::find_if(holdings_.begin(), holdings_.end(), [&](const Holding& holding) {
        return &holding != &leaving && holding.server == leaving.server;
      });
      ++serving[next == holdings_.end() ? host_ : next->host];
    }
    std::size_t most = 0;
    for (const auto& [host, count] : serving) most = std::max(most, count);
    return most;
  }

  void carry_out(const Transfer& transfer) {
    bool serves = false;
    if (transfer.replaces) {
      const auto gone = std::find_if(holdings_.begin(), holdings_.end(), [&](const Holding& holding) {
        return holding.server == transfer.server && holding.rank == *transfer.replaces;
      });
      serves = gone->serves;
      holdings_.erase(gone);
    }
    const auto next = std::find_if(holdings_.begin(), holdings_.end(),
                                   [&](const Holding& holding) { return holding.server == transfer.server; });
    const bool is_alone = next == holdings_.end();
    if (serves && !is_alone) next->serves = true;
    holdings_.push_back({.server = transfer.server,
                         .rank = transfer.replaces.value_or(0),
                         .host = host_,
                         .can_move = false,
                         .serves = serves && is_alone});
  }

  const std::string host_;
  std::vector<Holding> holdings_;
  const std::uint32_t copies_;
};

}  // namespace

std::vector<Transfer> share_of(const std::string& host, std::span<const Holding> holdings,
                               std::uint32_t copies, std::optional<std::uint32_t> at_most) {
  Plan plan(host, holdings, copies);
  std::vector<Transfer> all;
  while (!at_most || all.size() < *at_most) {
    const std::optional<Transfer> next = plan.next(/*is_share=*/!at_most);
    if (!next) break;
    all.push_back(*next);
  }
  return all;
}

std::optional<std::string> refuge_of(const Holding& leaving, std::span<const Holding> holdings,
                                     const std::set<std::string>& hosts_that_leave) {
  Loads loads;
  std::set<std::string> unfit = hosts_that_leave;
  for (const Holding& holding : holdings) {
    ++loads[holding.host];
    if (holding.server == leaving.server) unfit.insert(holding.host);
  }
  unfit.insert(leaving.host);
  std::optional<std::string> least;
  for (const auto& [host, load] : loads) {
    if (!unfit.contains(host) && (!least || load < loads[*least])) least = host;
  }
  return least;
}

}  // namespace verbena::apps
