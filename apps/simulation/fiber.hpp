// A function with a stack of its own that gives up the processor where it says so.
#pragma once

#include <csetjmp>
#include <cstddef>
#include <functional>
#include <memory>

namespace verbena::simulation {

/// Thread safety: a fiber and whoever resumes it share one thread.
class Fiber {
 public:
  explicit Fiber(std::function<void()> body);
  /// REQUIRES: ended, or never resumed.
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Runs the body until it suspends or ends.
  void resume();
  /// Called in the body: goes back to whoever has resumed it.
  void suspend();
  [[nodiscard]] bool ended() const { return ended_; }

 private:
  class Stack;
  static void enter(unsigned high, unsigned low);
  [[noreturn]] void enter_first();
  void run();

  std::function<void()> body_;
  std::unique_ptr<Stack> stack_;
  jmp_buf suspended_{};
  jmp_buf resumer_{};
  bool started_ = false;
  bool ended_ = false;
  // What each sanitizer needs to follow.
  [[maybe_unused]] void* fake_stack_ = nullptr;
  [[maybe_unused]] const void* resumer_stack_ = nullptr;
  [[maybe_unused]] std::size_t resumer_stack_bytes_ = 0;
  [[maybe_unused]] void* thread_fiber_ = nullptr;
  [[maybe_unused]] void* thread_resumer_ = nullptr;
};

}  // namespace verbena::simulation
