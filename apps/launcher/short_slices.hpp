// A setting of the kernel's scheduler for jobs that have more threads than cores.
#pragma once

namespace verbena::apps {

/// From now on this thread, and the threads that it starts, run for slices of 0.1 ms while other threads want
/// the core; in return they get a core sooner when they wake. The default slice is some milliseconds, and a
/// peer that waits for an answer of such a thread waits that long, too. Needs Linux 6.12; before that, and
/// under a scheduling policy other than the default, nothing changes.
void ask_for_short_slices();

}  // namespace verbena::apps
