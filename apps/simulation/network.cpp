#include "apps/simulation/network.hpp"

#include <algorithm>
#include <thread>

#include "apps/simulation/link.hpp"
#include "apps/simulation/simulated_transport.hpp"
#include "transport/shm/transfer.hpp"

namespace verbena::simulation {

using transport::Access;
using transport::Event;
using transport::Opcode;
using transport::OperationResult;
using transport::WorkRequest;

namespace {

constexpr std::uint32_t kMaxLots = 4;
/// How long a peer's death stays unnoticed, at most.
constexpr Duration kMaxDetection = std::chrono::milliseconds(5);
/// Of one that has something under way, which comes to no end.
constexpr Duration kLateDetection = std::chrono::seconds(8);

bool is_write(Opcode opcode) {
  return opcode == Opcode::kWrite || opcode == Opcode::kWriteNotify;
}

}  // namespace

void WallClock::block(TaskId /*task*/, TimePoint until) {
  // Sleeps in slices, because wake() does nothing here.
  std::this_thread::sleep_until(std::min(until, now() + std::chrono::milliseconds(1)));
}

Network::Network(Pacer& pacer, const NetworkOptions& options)
    : pacer_(pacer), options_(options), random_(options.seed) {}

Network::~Network() = default;

std::unique_ptr<SimulatedTransport> Network::make_transport(TaskId task, std::string name) {
  std::unique_ptr<SimulatedTransport> transport(new SimulatedTransport(*this, task, std::move(name)));
  const std::lock_guard lock(mutex_);
  if (options_.cards != nullptr) transport->card_ = options_.cards->add();
  return transport;
}

Duration Network::latency() {
  if (options_.cards != nullptr) return options_.cards->latency();
  return between(TimePoint(options_.min_latency), TimePoint(options_.max_latency)).time_since_epoch();
}

TimePoint Network::between(TimePoint first, TimePoint last) {
  if (last <= first) return first;
  return first + Duration(below(static_cast<std::uint64_t>((last - first).count()) + 1));
}

bool Network::chance(double probability) {
  return probability > 0 && std::bernoulli_distribution(probability)(random_);
}

std::uint64_t Network::below(std::uint64_t bound) {
  return std::uniform_int_distribution<std::uint64_t>(0, bound - 1)(random_);
}

TimePoint Network::next() const {
  const std::lock_guard lock(mutex_);
  return actions_.empty() ? TimePoint::max() : actions_.front().at;
}

void Network::run_due() {
  const std::lock_guard lock(mutex_);
  run_due_locked();
}

void Network::run_due_locked() {
  const TimePoint now = pacer_.now();
  if (now >= next_tick_) tick(now);
  while (!actions_.empty() && actions_.front().at <= now) {
    std::pop_heap(actions_.begin(), actions_.end(), Later());
    const Action action = std::move(actions_.back());
    actions_.pop_back();
    run(action);
  }
}

void Network::tick(TimePoint now) {
  next_tick_ = TimePoint::max();
  for (SimulatedTicker* const ticker : tickers_) {
    ticker->tick(now);
    next_tick_ = std::min(next_tick_, ticker->due());
  }
}

void Network::stop(SimulatedTransport& node, TimePoint until) {
  const std::lock_guard lock(mutex_);
  node.stopped_until_ = std::max(node.stopped_until_, until);
}

void Network::at(TimePoint time, Action::Kind kind, const std::shared_ptr<Link>& link, std::uint8_t side,
                 std::uint64_t request, std::uint32_t lot) {
  actions_.push_back({time, ++sequence_, kind, side, lot, request, link});
  std::push_heap(actions_.begin(), actions_.end(), Later());
}

void Network::run(const Action& action) {
  const bool of_a_request =
      action.kind != Action::Kind::kAnnounce && action.kind != Action::Kind::kDisconnect;
  // If the way to the peer no longer exists, the coming disconnection reports what happened to the request.
  if (of_a_request && !action.link->leads_to(1 - action.side)) return;
  switch (action.kind) {
    case Action::Kind::kBegin:
      return begin(action.link, action.side, action.request);
    case Action::Kind::kLot:
      return move_lot(action.link, action.side, action.request, action.lot);
    case Action::Kind::kLeave:
      return leave(action.link, action.side, action.request);
    case Action::Kind::kArrive:
      return arrive(action.link, action.side, action.request);
    case Action::Kind::kReach:
      return reach(action.link, action.side, action.request);
    case Action::Kind::kDeliver:
      return deliver(action.link, action.side, action.request);
    case Action::Kind::kServe:
      return serve(action.link, action.side, action.request);
    case Action::Kind::kReturn:
      return come_back(action.link, action.side, action.request);
    case Action::Kind::kFinish:
      return finish(action.link, action.side, action.request);
    case Action::Kind::kAnnounce:
      return announce(action.link);
    case Action::Kind::kDisconnect:
      // Run it again later, after what the peer's card is still taking in.
      if (options_.cards != nullptr && !action.link->broken && action.lot == 0) {
        const TimePoint last = action.link->ends[1 - action.side].last_arrival;
        return at(std::max(last, pacer_.now()), action.kind, action.link, action.side, 0, 1);
      }
      return fail(action.link, action.side, OperationResult::kPeerGone, "it is gone");
  }
}

std::size_t Network::post(const std::shared_ptr<Link>& link, std::uint8_t side,
                          std::span<const WorkRequest> requests) {
  End& end = link->ends[side];
  std::size_t taken = 0;
  for (const WorkRequest& request : requests) {
    if (end.failed) break;
    if (end.requests.size() >= options_.queue_depth) {
      end.refused = true;
      // Requests that have ended since the last poll keep their places until the next one.
      if (end.requests.front().has_ended()) tell_of_room(end);
      break;
    }
    if (chance(options_.partial_post_probability)) {
      end.node->unblocked_ = true;
      break;
    }
    schedule(link, side, request);
    ++taken;
  }
  return taken;
}

void Network::schedule(const std::shared_ptr<Link>& link, std::uint8_t side, const WorkRequest& work) {
  End& end = link->ends[side];
  Request& request = end.requests.emplace_back();
  request.work = work;
  request.number = end.next_number++;
  if (work.opcode == Opcode::kSend) {
    request.copy.assign(work.local.begin(), work.local.end());
    request.copied = true;
  } else if (work.region != nullptr) {
    request.local = static_cast<const SimulatedRegion*>(work.region)->memory();
  }
  if (work.opcode == Opcode::kRead) ++end.node->reads_;
  if (options_.cards == nullptr) return draw_times(link, side, request);
  request.lots = 1;
  const std::size_t size = work.opcode == Opcode::kRead ? 0 : work.local.size();
  at(options_.cards->send(end.card, size, pacer_.now()), Action::Kind::kReach, link, side, request.number);
}

/// Draws the times at which a request begins, moves, leaves and arrives.
void Network::draw_times(const std::shared_ptr<Link>& link, std::uint8_t side, Request& request) {
  End& end = link->ends[side];
  const WorkRequest& work = request.work;
  const std::size_t size = work.local.size();
  const TimePoint now = pacer_.now();
  const TimePoint begins = end.last_begin = std::max(now, end.last_begin);
  const Duration carried =
      latency() + Duration(static_cast<std::int64_t>(static_cast<double>(size) / options_.bytes_per_ns));
  at(begins, Action::Kind::kBegin, link, side, request.number);
  TimePoint first_visible = std::max(begins, end.last_read);
  TimePoint arrives = std::max(begins + carried, end.last_arrival);
  TimePoint completes;
  if (work.opcode == Opcode::kRead) {
    // A read sees all writes before it, and none after it.
    first_visible = std::max(begins + latency(), end.last_arrival);
    arrives = first_visible + carried;
    end.last_read = arrives;
    completes = std::max(arrives + latency(), end.last_completion);
  } else {
    for (const Request& other : end.requests) {
      // If writes overlap, the last one wins.
      if (!other.arrived && other.number != request.number && is_write(other.work.opcode) &&
          other.work.remote.address < work.remote.address + size &&
          work.remote.address < other.work.remote.address + other.work.local.size()) {
        first_visible = std::max(first_visible, other.arrival);
      }
    }
    completes = std::max(between(begins, arrives), end.last_completion);
    arrives = std::max(arrives, first_visible);
  }
  end.last_arrival = request.arrival = arrives;
  end.last_completion = completes;

  if (work.opcode != Opcode::kSend && size > 0) {
    const std::size_t lines =
        (work.remote.address % options_.line_bytes + size + options_.line_bytes - 1) / options_.line_bytes;
    request.lots = lines > 1 && chance(options_.split_probability)
                       ? static_cast<std::uint32_t>(std::min<std::size_t>(kMaxLots, lines))
                       : 1;
    if (request.lots > 1) {
      request.lot_of_line.resize(lines);
      for (std::uint8_t& lot : request.lot_of_line) lot = static_cast<std::uint8_t>(below(request.lots));
    }
    for (std::uint32_t lot = 0; lot < request.lots; ++lot) {
      at(between(first_visible, arrives), Action::Kind::kLot, link, side, request.number, lot);
    }
  }
  if (work.opcode != Opcode::kRead) at(completes, Action::Kind::kLeave, link, side, request.number);
  at(arrives, Action::Kind::kArrive, link, side, request.number);
  if (work.opcode == Opcode::kRead) at(completes, Action::Kind::kLeave, link, side, request.number);
}

/// Checks access rights.
void Network::begin(const std::shared_ptr<Link>& link, std::uint8_t side, std::uint64_t number) {
  End& end = link->ends[side];
  const End& peer = link->ends[1 - side];
  Request* const request = end.find(number);
  if (request == nullptr) return;
  const WorkRequest& work = request->work;
  if (work.opcode == Opcode::kSend) {
    if (request->copy.size() > kMaxMessageBytes)
      fail(link, side, OperationResult::kDeviceError, "a message is too long");
    return;
  }
  const auto start = reinterpret_cast<std::uintptr_t>(work.local.data());
  const Access right = work.opcode == Opcode::kRead ? Access::kRemoteRead : Access::kRemoteWrite;
  const auto granted = std::find_if(peer.grants.begin(), peer.grants.end(),
                                    [&](const Grant& grant) { return grant.key == work.remote.key; });
  const bool local_is_right =
      request->local && (work.local.empty() || request->local->holds(start, work.local.size()));
  const bool remote_is_right = granted != peer.grants.end() && granted->memory->alive &&
                               allows(granted->memory->access, right) &&
                               work.remote.length_bytes >= work.local.size() &&
                               granted->memory->holds(work.remote.address, work.local.size());
  if (!local_is_right || !remote_is_right) {
    return fail(link, side, OperationResult::kAccessDenied,
                "an access outside of what is registered and granted");
  }
  request->remote = granted->memory;
}

void Network::move_lot(const std::shared_ptr<Link>& link, std::uint8_t side, std::uint64_t number,
                       std::uint32_t lot) {
  End& end = link->ends[side];
  Request* const request = end.find(number);
  if (request == nullptr || request->remote == nullptr) return;
  const WorkRequest& work = request->work;
  if (!request->remote->alive) {
    return fail(link, side, OperationResult::kAccessDenied, "the region is gone");
  }
  std::byte* const remote =
      request->remote->data + (work.remote.address - reinterpret_cast<std::uintptr_t>(request->remote->data));
  std::byte* const local = request->copied ? request->copy.data() : work.local.data();
  const auto move = [&](std::size_t offset, std::size_t bytes) {
    if (work.opcode == Opcode::kRead) {
      transport::shm::transfer(local + offset, remote + offset, bytes);
    } else {
      transport::shm::transfer(remote + offset, local + offset, bytes);
    }
  };
  if (request->lots == 1) return move(0, work.local.size());
  std::size_t offset = 0;
  for (const std::uint8_t each : request->lot_of_line) {
    const std::size_t to_boundary =
        options_.line_bytes - (work.remote.address + offset) % options_.line_bytes;
    const std::size_t bytes = std::min(to_boundary, work.local.size() - offset);
    if (each == lot) move(offset, bytes);
    offset += bytes;
  }
}

// With cards, the next stage is booked when one ends, so that each card serves what comes first.

void Network::reach(const std::shared_ptr<Link>& link, std::uint8_t side, std::uint64_t number) {
  begin(link, side, number);
  End& end = link->ends[side];
  Request* const request = end.find(number);
  if (request == nullptr) return;
  const bool read = request->work.opcode == Opcode::kRead;
  end.last_arrival = request->arrival =
      options_.cards->receive(link->ends[1 - side].card, read ? 0 : request->work.local.size(), pacer_.now());
  at(request->arrival, read ? Action::Kind::kServe : Action::Kind::kDeliver, link, side, number);
}

void Network::deliver(const std::shared_ptr<Link>& link, std::uint8_t side, std::uint64_t number) {
  move_lot(link, side, number, 0);
  arrive(link, side, number);
  // The time of the acknowledgement on its way back.
  at(pacer_.now() + latency(), Action::Kind::kLeave, link, side, number);
}

void Network::serve(const std::shared_ptr<Link>& link, std::uint8_t side, std::uint64_t number) {
  move_lot(link, side, number, 0);
  const Request* const request = link->ends[side].find(number);
  if (request == nullptr) return;
  at(options_.cards->send(link->ends[1 - side].card, request->work.local.size(), pacer_.now()),
     Action::Kind::kReturn, link, side, number);
}

void Network::come_back(const std::shared_ptr<Link>& link, std::uint8_t side, std::uint64_t number) {
  const Request* const request = link->ends[side].find(number);
  if (request == nullptr) return;
  at(options_.cards->receive(link->ends[side].card, request->work.local.size(), pacer_.now()),
     Action::Kind::kFinish, link, side, number);
}

void Network::finish(const std::shared_ptr<Link>& link, std::uint8_t side, std::uint64_t number) {
  arrive(link, side, number);
  leave(link, side, number);
}

/// The local memory belongs to the owner again when all requests before this one have left, too.
void Network::leave(const std::shared_ptr<Link>& link, std::uint8_t side, std::uint64_t number) {
  End& end = link->ends[side];
  Request* const leaving = end.find(number);
  if (leaving == nullptr || leaving->completed) return;
  leaving->may_leave = true;
  bool any = false;
  for (Request& request : end.requests) {
    if (request.completed) continue;
    if (!request.may_leave) break;
    complete(link, side, request);
    any = true;
  }
  if (any) tell_of_room(end);
}

void Network::complete(const std::shared_ptr<Link>& link, std::uint8_t side, Request& request) {
  if (!request.arrived && !request.copied) {
    request.copy.assign(request.work.local.begin(), request.work.local.end());
    request.copied = true;
  }
  request.completed = true;
  touch(link, side);
  if (request.work.signaled) raise(*link, side, {.kind = Event::Kind::kCompletion, .id = request.work.id});
}

/// The owner's next poll looks at this side of the link.
void Network::touch(const std::shared_ptr<Link>& link, std::uint8_t side) {
  End& end = link->ends[side];
  if (end.touched || end.closed()) return;
  end.touched = true;
  end.node->touched_.emplace_back(link, side);
}

/// A waiter whose requests were refused may try again.
void Network::tell_of_room(End& end) {
  if (!end.refused || end.closed()) return;
  end.refused = false;
  end.node->unblocked_ = true;
  pacer_.wake(end.node->task_);
}

void Network::arrive(const std::shared_ptr<Link>& link, std::uint8_t side, std::uint64_t number) {
  End& end = link->ends[side];
  Request* const request = end.find(number);
  if (request == nullptr) return;
  const WorkRequest& work = request->work;
  request->arrived = true;
  touch(link, side);
  if (request->has_ended()) tell_of_room(end);
  if (work.opcode == Opcode::kWriteNotify) {
    raise(*link, 1 - side, {.kind = Event::Kind::kNotification, .notification = work.notification});
  } else if (work.opcode == Opcode::kSend) {
    raise(*link, 1 - side, {.kind = Event::Kind::kMessage},
          std::string(reinterpret_cast<const char*>(request->copy.data()), request->copy.size()));
  }
  tell_of_room(end);
}

void Network::announce(const std::shared_ptr<Link>& link) {
  End& end = link->ends[1];
  if (end.closed()) return;
  for (SimulatedTransport::Incoming& incoming : end.node->incoming_) {
    if (incoming.link != link) continue;
    incoming.announced = true;
    end.node->pending_.push_back({.event = {.kind = Event::Kind::kAccepted}});
    pacer_.wake(end.node->task_);
  }
}

void Network::raise(Link& link, std::uint8_t side, Event event, std::string message) {
  End& end = link.ends[side];
  if (end.closed() || end.failed) return;
  if (end.connection == nullptr) {
    end.held.emplace_back(event, std::move(message));
    return;
  }
  event.connection = end.connection;
  end.node->pending_.push_back({event, std::move(message), &link, side});
  pacer_.wake(end.node->task_);
}

/// Ends one side: completes all outstanding requests, the first one with `result`.
void Network::fail(const std::shared_ptr<Link>& link, std::uint8_t side, OperationResult result,
                   const char* reason) {
  End& end = link->ends[side];
  if (end.failed) return;
  Event completion{.kind = Event::Kind::kCompletion, .result = result};
  // Requests that have left still arrive; the others never do.
  const auto first = std::find_if(end.requests.begin(), end.requests.end(),
                                  [](const Request& request) { return !request.completed; });
  for (auto request = first; request != end.requests.end(); ++request) {
    completion.id = request->work.id;
    raise(*link, side, completion);
    completion.result = OperationResult::kFlushed;
  }
  end.requests.erase(first, end.requests.end());
  if (result == OperationResult::kPeerGone) end.requests.clear();
  raise(*link, side, {.kind = Event::Kind::kDisconnected});
  end.failed = true;
  end.failure = result;
  end.reason = reason;
  touch(link, side);
  if (!is_cut(*link))
    at(std::max(pacer_.now() + latency(), end.last_arrival), Action::Kind::kDisconnect, link, 1 - side);
  if (!end.closed()) pacer_.wake(end.node->task_);
}

void Network::close(const std::shared_ptr<Link>& link, std::uint8_t side) {
  End& end = link->ends[side];
  if (end.closed()) return;
  // What was posted is on its way. But nobody waits for a read any more, and its memory may be released.
  for (Request& request : end.requests) {
    if (!request.copied && request.local != nullptr) {
      request.copy.assign(request.work.local.begin(), request.work.local.end());
      request.copied = true;
    }
    request.work.signaled = false;
  }
  std::erase_if(end.node->pending_, [&](const SimulatedTransport::Pending& pending) {
    return pending.link == link.get() && pending.side == side;
  });
  end.held.clear();
  end.mapped.clear();
  // The other side may still map what it was granted: see SimulatedConnection::locate().
  if (link->ends[1 - side].connection == nullptr) {
    for (End& each : link->ends) each.grants.clear();
  }
  end.connection = nullptr;
  end.node = nullptr;
  if (is_cut(*link)) return;
  const TimePoint leaves =
      options_.cards != nullptr ? options_.cards->send(end.card, 0, pacer_.now()) : pacer_.now() + latency();
  at(std::max(leaves, end.last_arrival), Action::Kind::kDisconnect, link, 1 - side);
}

/// The peer does not hear that a side has closed it: it finds out by itself.
bool Network::is_cut(const Link& link) const {
  return link.broken && options_.connections_may_break;
}

/// From now on nothing moves over the link; both sides learn of it some time later.
void Network::break_link(const std::shared_ptr<Link>& link) {
  link->broken = true;
  for (std::uint8_t side = 0; side < 2; ++side) {
    // Who has connected may be there again before the other one knows that it was away.
    const bool is_late = options_.connections_may_break && side == 1 && chance(0.2);
    const Duration most = is_late ? kLateDetection : kMaxDetection;
    at(between(pacer_.now(), pacer_.now() + most), Action::Kind::kDisconnect, link, side);
  }
}

void Network::kill(SimulatedTransport& node) {
  const std::lock_guard lock(mutex_);
  node.dead_ = true;
  std::erase_if(listeners_, [&](const auto& listener) { return listener.second == &node; });
  for (const std::shared_ptr<Link>& link : links_) {
    for (std::uint8_t side = 0; side < 2; ++side) {
      if (link->ends[side].node != &node) continue;
      break_link(link);
      fail(link, side, OperationResult::kPeerGone, "this node is dead");
      break;
    }
  }
}

bool Network::cut_a_link(const SimulatedTransport& node, const SimulatedTransport* peer) {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<Link>> mine;
  for (const std::shared_ptr<Link>& link : links_) {
    const auto& [one, other] = link->ends;
    const bool is_of_node = one.node == &node || other.node == &node;
    const bool is_of_peer = peer == nullptr || one.node == peer || other.node == peer;
    if (is_of_node && is_of_peer) mine.push_back(link);
  }
  if (mine.empty()) return false;
  break_link(mine[below(mine.size())]);
  return true;
}

void Network::forget_ended_links() {
  if (links_.size() < links_to_look_at_) return;
  std::erase_if(links_, [](const std::shared_ptr<Link>& link) {
    return link->ends[0].closed() && link->ends[1].closed();
  });
  links_to_look_at_ = std::max(links_to_look_at_, 2 * links_.size());
}

}  // namespace verbena::simulation
