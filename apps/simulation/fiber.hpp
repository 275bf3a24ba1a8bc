// A function with its own stack, which gives up the processor only when it calls suspend().
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
  /// REQUIRES: the fiber has ended, or was never resumed.
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Runs the body until it suspends or ends.
  void resume();
  /// Called in the body: returns to the caller of resume().
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
  // What each sanitizer needs to follow the change of stacks.
  [[maybe_unused]] void* fake_stack_ = nullptr;
  [[maybe_unused]] const void* resumer_stack_ = nullptr;
  [[maybe_unused]] std::size_t resumer_stack_bytes_ = 0;
  [[maybe_unused]] void* thread_fiber_ = nullptr;
  [[maybe_unused]] void* thread_resumer_ = nullptr;
};

}  // namespace verbena::simulation
