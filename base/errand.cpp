#include "base/errand.hpp"

#include <cassert>
#include <exception>
#include <new>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "base/signals_blocked.hpp"
#include "base/stand_in.hpp"

namespace verbena::base {

namespace {

class Threads final : public ErrandRunner {
 public:
  /// Throws std::system_error.
  std::unique_ptr<Run> begin(std::function<void()> work) override {
    return std::make_unique<OneThread>(std::move(work));
  }

 private:
  class OneThread final : public Run {
   public:
    explicit OneThread(std::function<void()> work) {
      const SignalsBlocked blocked;
      thread_ = std::thread(std::move(work));
    }
    ~OneThread() override { thread_.join(); }

   private:
    std::thread thread_;
  };
};

ErrandRunner& runner() {
  static Threads threads;
  ErrandRunner* const stand_in = StandIn<ErrandRunner>::get();
  return stand_in != nullptr ? *stand_in : threads;
}

absl::Status run(const std::function<absl::Status()>& work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("the system has no memory left for it");
  } catch (const std::exception& thrown) {
    return absl::InternalError(thrown.what());
  }
}

}  // namespace

Errand::~Errand() = default;

void Errand::begin(std::function<absl::Status()> work, std::function<void()> wake) {
  assert(!is_under_way_);
  is_under_way_ = true;
  has_ended_.store(false, std::memory_order_relaxed);
  try {
    run_ = runner().begin([this, work = std::move(work), wake = std::move(wake)] {
      status_ = run(work);
      has_ended_.store(true, std::memory_order_release);
      if (wake) wake();
    });
  } catch (const std::system_error& thrown) {
    status_ =
        absl::ResourceExhaustedError(std::string("the system has no thread left for it: ") + thrown.what());
    has_ended_.store(true, std::memory_order_relaxed);
  }
}

absl::Status Errand::take() {
  assert(is_under_way_ && has_ended());
  run_.reset();
  is_under_way_ = false;
  return std::exchange(status_, absl::OkStatus());
}

}  // namespace verbena::base
