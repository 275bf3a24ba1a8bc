// Connects libFuzzer to a target. The environment variable VERBENA_FUZZ names the target's kind, the build
// its list (VERBENA_FUZZ_TARGETS).
#include <spdlog/spdlog.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "tests/fuzz/target.hpp"

namespace {

const verbena::fuzz::Target* chosen = nullptr;

}  // namespace

// The sanitizers call these functions for their options. Undefined behaviour ends the process, like other
// errors. With thousands of inputs a second, freed memory must not pile up, and recording long stacks of
// allocations would take too much time.
extern "C" const char* __ubsan_default_options() {
  return "halt_on_error=1:print_stacktrace=1";
}
extern "C" const char* __asan_default_options() {
  return "quarantine_size_mb=4:malloc_context_size=8";
}

extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
  const char* const kind = std::getenv("VERBENA_FUZZ");
  chosen = verbena::fuzz::find_target(verbena::fuzz::VERBENA_FUZZ_TARGETS(), kind == nullptr ? "" : kind);
  if (chosen == nullptr) {
    std::fprintf(stderr, "VERBENA_FUZZ must be one of:");
    for (const verbena::fuzz::Target& target : verbena::fuzz::VERBENA_FUZZ_TARGETS()) {
      std::fprintf(stderr, " %.*s", static_cast<int>(target.kind.size()), target.kind.data());
    }
    std::fprintf(stderr, "\n");
    std::exit(2);
  }
  spdlog::set_level(spdlog::level::off);
  std::signal(SIGPIPE, SIG_IGN);  // as verbena does
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t count) {
  chosen->attempt({reinterpret_cast<const char*>(bytes), count});
  return 0;
}
