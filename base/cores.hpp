// How many cores a process has: the host may have more than it may use.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace verbena::base {

// `root` is the root of the file system; tests give another folder.

/// Cores that the calling thread may run on, by its affinity mask (taskset, cpusets); 0: unknown.
std::uint32_t cores_to_run_on();
/// The folder of this process's control group (version 2).
std::filesystem::path control_group(const std::filesystem::path& root = "/");
/// Cores' worth of processor time that the control group may use (cpu.max, as container engines and batch
/// systems set it): the smallest quota of it and of the groups around it; nullopt: there is none.
std::optional<double> core_quota(const std::filesystem::path& root = "/");
/// How many threads can compute at a time: of the cores to run on, no more than whole ones of the quota. At
/// least 1.
std::uint32_t cores_at_hand(const std::filesystem::path& root = "/");

}  // namespace verbena::base
