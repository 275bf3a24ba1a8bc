#include <fmt/format.h>
#include <pthread.h>

#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "base/signals_blocked.hpp"
#include "transport/transport.hpp"

namespace verbena::transport {

namespace {

class TickerThread final : public Ticker {
 public:
  /// Throws if the system cannot create a thread.
  TickerThread(Duration interval, std::function<void()> tick) : interval_(interval), tick_(std::move(tick)) {
    const base::SignalsBlocked blocked;
    thread_ = std::thread([this] { run(); });
    ::pthread_setname_np(thread_.native_handle(), "ticker");
  }
  ~TickerThread() override {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    stopped_.notify_one();
    thread_.join();
  }
  TickerThread(const TickerThread&) = delete;
  TickerThread& operator=(const TickerThread&) = delete;

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (!stopped_.wait_for(lock, interval_, [this] { return stop_; })) tick_();
  }

  const Duration interval_;
  const std::function<void()> tick_;
  std::mutex mutex_;
  std::condition_variable stopped_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Ticker>> Transport::start_ticker(Duration interval,
                                                                std::function<void()> tick) {
  try {
    return std::make_unique<TickerThread>(interval, std::move(tick));
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(fmt::format(
        "no thread for the heartbeat can be had ({}): is the limit on processes (ulimit -u) reached?",
        error.what()));
  }
}

}  // namespace verbena::transport
