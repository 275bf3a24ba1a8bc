// Tests of what follows from the cores at hand.
#pragma once

#include <gtest/gtest.h>
#include <sched.h>

#include <cstddef>
#include <functional>
#include <thread>

namespace verbena::testing {

/// Calls `test` in a thread that may run on one core only.
inline void on_one_core(const std::function<void()>& test) {
  std::thread([&] {
    cpu_set_t cores;
    ASSERT_EQ(::sched_getaffinity(0, sizeof cores, &cores), 0);
    for (std::size_t core = 0; core < CPU_SETSIZE && CPU_COUNT(&cores) > 1; ++core) CPU_CLR(core, &cores);
    ASSERT_EQ(::sched_setaffinity(0, sizeof cores, &cores), 0);
    test();
  }).join();
}

}  // namespace verbena::testing
