#include "server/driver.hpp"

#include <algorithm>
#include <chrono>
#include <deque>
#include <memory>
#include <new>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "base/signals_blocked.hpp"
#include "transport/backends.hpp"
#include <verbena/server.hpp>

namespace verbena {
namespace server {

namespace {

constexpr auto kIdleWait = std::chrono::milliseconds(100);
/// After the job has failed: how long to wait for the workers to hear of it.
constexpr auto kLinger = std::chrono::seconds(2);
/// The same after a stop.
constexpr auto kFarewell = std::chrono::milliseconds(50);
constexpr int kIdlePolls = 200;  // some microseconds: the next update is often that near

/// A thread that drives some lanes and sleeps when they have nothing to do.
class LaneThread {
 public:
  LaneThread(std::vector<Lane*> lanes, transport::Transport& transport)
      : lanes_(std::move(lanes)), transport_(transport) {
    const base::SignalsBlocked blocked;
    thread_ = std::thread([this] { run(); });
  }

  ~LaneThread() {
    stop_ = true;
    wake();
    thread_.join();
  }
  LaneThread(const LaneThread&) = delete;
  LaneThread& operator=(const LaneThread&) = delete;

  void wake() {
    signal_.fetch_add(1, std::memory_order_release);
    signal_.notify_one();
  }

 private:
  bool poll() {
    bool worked = false;
    for (Lane* lane : lanes_) worked |= lane->poll();
    // The receiver's thread must send on and release what a lane has done.
    if (worked) transport_.interrupt();
    return worked;
  }

  void run() {
    while (!stop_) {
      // Read before polling: a task enqueued after an idle poll has changed it.
      const std::uint32_t seen = signal_.load(std::memory_order_acquire);
      int idle = 0;
      while (idle < kIdlePolls && !stop_) idle = poll() ? 0 : idle + 1;
      if (!stop_) signal_.wait(seen, std::memory_order_acquire);
    }
  }

  std::vector<Lane*> lanes_;
  transport::Transport& transport_;
  std::atomic<bool> stop_ = false;
  std::atomic<std::uint32_t> signal_ = 0;
  std::thread thread_;
};

class LaneThreads {
 public:
  LaneThreads(Server& server, transport::Transport& transport, std::uint32_t count) : server_(server) {
    const auto& lanes = server.lanes();
    const std::size_t threads = std::min<std::size_t>(count, lanes.size());
    if (threads > 0) server.start_lane_threads();  // before they look whether it has
    for (std::size_t thread = 0; thread < threads; ++thread) {
      std::vector<Lane*> mine;
      for (std::size_t lane = thread; lane < lanes.size(); lane += threads) mine.push_back(lanes[lane].get());
      threads_.emplace_back(std::move(mine), transport);
    }
    if (threads > 0)
      server.set_lane_waker([this](std::uint32_t lane) { threads_[lane % threads_.size()].wake(); });
  }
  ~LaneThreads() {
    server_.end_lane_threads();
    server_.set_lane_waker({});
  }
  LaneThreads(const LaneThreads&) = delete;
  LaneThreads& operator=(const LaneThreads&) = delete;

  [[nodiscard]] bool empty() const { return threads_.empty(); }

 private:
  Server& server_;
  std::deque<LaneThread> threads_;
};

absl::Status drive_until_finished(Server& server, transport::Transport& transport,
                                  const std::atomic<bool>& stop, AtStop at_stop) {
  LaneThreads threads(server, transport, std::max(1U, server.options().threads) - 1);
  transport::TimePoint give_up = transport::TimePoint::max();
  const absl::Status stopped = absl::CancelledError("stopped");
  bool is_stopped = false;
  while (!server.finished()) {
    if (!is_stopped && stop.load(std::memory_order_relaxed)) {
      if (at_stop == AtStop::kEnd || !server.tell_of_stop()) return stopped;
      is_stopped = true;
      give_up = transport.now() + kFarewell;
    }
    if (!server.status().ok() && give_up == transport::TimePoint::max()) {
      give_up = transport.now() + kLinger;
    }
    if (give_up != transport::TimePoint::max() && transport.now() > give_up) break;
    bool worked = server.receive();
    if (threads.empty()) {
      for (const auto& lane : server.lanes()) worked |= lane->poll();
    }
    worked |= server.send();
    if (!worked) {
      transport.wait(
          std::min<transport::TimePoint>({transport.now() + kIdleWait, server.next_poll(), give_up}));
    }
  }
  return is_stopped ? stopped : server.status();
}

}  // namespace

absl::Status drive(Server& server, transport::Transport& transport, const std::atomic<bool>& stop,
                   AtStop at_stop) {
  try {
    return drive_until_finished(server, transport, stop, at_stop);
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("the system has no memory left for what this server has to do");
  } catch (const std::system_error& thrown) {
    return absl::ResourceExhaustedError(
        std::string("the system has no threads left for what this server has to do: ") + thrown.what());
  }
}

}  // namespace server

absl::Status run_server(const ServerOptions& options, const std::atomic<bool>& stop) {
  const absl::StatusOr<std::unique_ptr<transport::Transport>> transport =
      transport::open(options.address, options.network);
  if (!transport.ok()) return transport.status();
  const absl::StatusOr<std::unique_ptr<server::Server>> server = server::Server::create(**transport, options);
  if (!server.ok()) return server.status();
  return server::drive(**server, **transport, stop);
}

}  // namespace verbena
