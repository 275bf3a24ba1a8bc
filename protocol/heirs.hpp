// Which server is the home of a dead server's keys, in a job that goes on without it: the next one, by rank,
// that is not gone; after the last comes the first. It depends on nothing but who is gone, so that all who
// know of the same deaths name the same server.
//
// Pure rules: no I/O. Thread safety: none; one owner.
#pragma once

#include <cassert>
#include <cstdint>
#include <vector>

namespace verbena::protocol {

class Heirs {
 public:
  /// REQUIRES: servers > 0
  explicit Heirs(std::uint32_t servers) : of_(servers), is_gone_(servers, false) {
    for (std::uint32_t server = 0; server < servers; ++server) of_[server] = server;
  }

  [[nodiscard]] std::uint32_t servers() const { return static_cast<std::uint32_t>(of_.size()); }
  /// Of the keys that the placement gives to `server`: the server itself, or the one that has inherited them.
  [[nodiscard]] std::uint32_t of(std::uint32_t server) const { return of_[server]; }
  [[nodiscard]] bool is_gone(std::uint32_t server) const { return is_gone_[server]; }
  /// How many are gone.
  [[nodiscard]] std::uint32_t gone() const { return gone_; }

  /// False: that was known. Nobody inherits from the last one.
  bool lose(std::uint32_t server) {
    assert(server < servers());
    if (is_gone_[server]) return false;
    is_gone_[server] = true;
    ++gone_;
    if (gone_ == servers()) return true;
    for (std::uint32_t& heir : of_) {
      while (is_gone_[heir]) heir = (heir + 1) % servers();
    }
    return true;
  }

 private:
  std::vector<std::uint32_t> of_;
  std::vector<bool> is_gone_;
  std::uint32_t gone_ = 0;
};

}  // namespace verbena::protocol
