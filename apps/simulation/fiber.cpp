// Between stacks, longjmp() jumps up as well as down. Its checked form takes that for a mistake.
#undef _FORTIFY_SOURCE
#include "apps/simulation/fiber.hpp"

#include <sys/mman.h>
#include <ucontext.h>

#include <cassert>
#include <cstdint>
#include <cstdlib>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#define VERBENA_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define VERBENA_ADDRESS_SANITIZER 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define VERBENA_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define VERBENA_THREAD_SANITIZER 1
#endif
#endif
#ifdef VERBENA_ADDRESS_SANITIZER
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef VERBENA_THREAD_SANITIZER
#include <sanitizer/tsan_interface.h>
#endif

namespace verbena::simulation {

namespace {
constexpr std::size_t kStackBytes = std::size_t{512} << 10;
}

/// Memory of a stack, used again by later fibers of the thread: mapping costs more than the work of most
/// fibers.
class Fiber::Stack {
 public:
  Stack() {
    if (!spare().memory.empty()) {
      memory_ = spare().memory.back();
      spare().memory.pop_back();
      return;
    }
    memory_ = ::mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (memory_ == MAP_FAILED) std::abort();
    ::mprotect(memory_, 4096, PROT_NONE);  // the guard
  }
  ~Stack() { spare().memory.push_back(memory_); }
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;

  [[nodiscard]] void* bottom() const { return memory_; }

 private:
  struct Spare {
    ~Spare() {
      for (void* stack : memory) ::munmap(stack, kStackBytes);
    }
    std::vector<void*> memory;
  };
  static Spare& spare() {
    thread_local Spare stacks;
    return stacks;
  }
  void* memory_ = nullptr;
};

Fiber::Fiber(std::function<void()> body) : body_(std::move(body)) {}

Fiber::~Fiber() {
  assert(ended_ || !started_);
#ifdef VERBENA_THREAD_SANITIZER
  if (thread_fiber_ != nullptr) __tsan_destroy_fiber(thread_fiber_);
#endif
}

void Fiber::enter(unsigned high, unsigned low) {
  reinterpret_cast<Fiber*>((static_cast<std::uintptr_t>(high) << 32) | low)->run();
}

void Fiber::run() {
#ifdef VERBENA_ADDRESS_SANITIZER
  __sanitizer_finish_switch_fiber(nullptr, &resumer_stack_, &resumer_stack_bytes_);
#endif
  body_();
  ended_ = true;
#ifdef VERBENA_ADDRESS_SANITIZER
  __sanitizer_start_switch_fiber(nullptr, resumer_stack_, resumer_stack_bytes_);
#endif
#ifdef VERBENA_THREAD_SANITIZER
  __tsan_switch_to_fiber(thread_resumer_, 0);
#endif
  ::_longjmp(resumer_, 1);
}

/// Begins the body on its own stack.
void Fiber::enter_first() {
  ucontext_t context;
  ::getcontext(&context);
  context.uc_stack.ss_sp = stack_->bottom();
  context.uc_stack.ss_size = kStackBytes;
  context.uc_link = nullptr;
  const auto self = reinterpret_cast<std::uintptr_t>(this);
  ::makecontext(&context, reinterpret_cast<void (*)()>(&Fiber::enter), 2, static_cast<unsigned>(self >> 32),
                static_cast<unsigned>(self));
  ::setcontext(&context);
  std::abort();  // setcontext() returns only if it fails
}

void Fiber::resume() {
  assert(!ended_);
  const bool first = !started_;
  if (first) {
    started_ = true;
    stack_ = std::make_unique<Stack>();
#ifdef VERBENA_THREAD_SANITIZER
    thread_fiber_ = __tsan_create_fiber(0);
#endif
  }
#ifdef VERBENA_ADDRESS_SANITIZER
  void* fake_stack = nullptr;
  __sanitizer_start_switch_fiber(&fake_stack, stack_->bottom(), kStackBytes);
#endif
#ifdef VERBENA_THREAD_SANITIZER
  thread_resumer_ = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(thread_fiber_, 0);
#endif
  // Not swapcontext(), which asks the system for the signal mask each time.
  if (::_setjmp(resumer_) == 0) {
    if (first) enter_first();
    ::_longjmp(suspended_, 1);
  }
#ifdef VERBENA_ADDRESS_SANITIZER
  __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
#endif
  if (ended_) stack_.reset();
}

void Fiber::suspend() {
#ifdef VERBENA_ADDRESS_SANITIZER
  __sanitizer_start_switch_fiber(&fake_stack_, resumer_stack_, resumer_stack_bytes_);
#endif
#ifdef VERBENA_THREAD_SANITIZER
  __tsan_switch_to_fiber(thread_resumer_, 0);
#endif
  if (::_setjmp(suspended_) == 0) ::_longjmp(resumer_, 1);
#ifdef VERBENA_ADDRESS_SANITIZER
  __sanitizer_finish_switch_fiber(fake_stack_, &resumer_stack_, &resumer_stack_bytes_);
#endif
}

}  // namespace verbena::simulation
