// The keys of a home that is gone, on the server that is their home now. It does not know at first who owns
// them: nobody has told it. So requests about them wait until a worker has asked all servers that are left
// which of these rows their slots own, and has passed the answers on (a *census*). The workers whose requests
// wait do that: they look at their sessions, while others may compute.
//
// A census finds each row in at most one slot, since by then nobody moves rows of that home any more
// (succession.hpp). A row that it does not find was on a dead node, or on its way for a dead worker: it is
// lost with the node of the home that is gone, unless some server has an image of it.
//
// No I/O. Thread safety: none; one owner.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "protocol/messages.hpp"
#include "server/homes.hpp"

namespace verbena::server {

class InheritedKeys {
 public:
  struct Request {
    Homes::Worker worker;
    protocol::KeyRequests::Kind kind = protocol::KeyRequests::Kind::kLocate;
    protocol::KeyRequests::Row row;
  };

  /// `from`: their home by the placement. RESOURCE_EXHAUSTED where memory is short.
  static absl::StatusOr<InheritedKeys> create(KeyRange keys, std::uint32_t from);

  [[nodiscard]] std::uint32_t from() const { return from_; }
  [[nodiscard]] KeyRange keys() const { return keys_; }
  /// It is known who owns them: from now on requests go to homes().
  [[nodiscard]] bool are_known() const { return are_known_; }
  [[nodiscard]] Homes& homes() { return homes_; }
  /// Those that were lost with a node may come back from an image: nobody else can have them. Once they are
  /// known.
  [[nodiscard]] bool may_come_back() const { return may_come_back_; }
  void let_none_come_back() { may_come_back_ = false; }

  // Until are_known(), which all of these require not to be so.

  void wait(const Request& request) { waiting_.push_back(request); }
  /// The worker has left, or died.
  void forget(std::uint32_t worker);
  /// Another server is gone, and a new census is needed. What the one before has found stays true: nobody has
  /// moved these rows since, or those that are lost now are lost.
  void begin_anew() { counting_.clear(); }
  /// Workers that have requests here and do not make the census yet; from now on they do.
  std::vector<std::uint32_t> take_counters();
  /// A worker has found the row where the answer says, or an image of it as it was there. INVALID_ARGUMENT if
  /// that cannot be.
  absl::Status found(std::uint32_t worker, const protocol::KeyAnswers::Answer& answer);
  /// The worker has found all rows that there are. Returns true if the census counts: then the keys are
  /// known, and `waiting` are the requests that have waited, in their order.
  bool end(std::uint32_t worker, std::vector<Request>& waiting);

 private:
  InheritedKeys(KeyRange keys, std::uint32_t from, Homes homes)
      : keys_(keys), from_(from), homes_(std::move(homes)) {}
  [[nodiscard]] bool counts(std::uint32_t worker) const {
    return std::find(counting_.begin(), counting_.end(), worker) != counting_.end();
  }

  KeyRange keys_;
  std::uint32_t from_;
  Homes homes_;
  bool are_known_ = false;
  bool may_come_back_ = true;
  std::vector<Request> waiting_;
  std::vector<std::uint32_t> counting_;  ///< workers that make the newest census
};

}  // namespace verbena::server
