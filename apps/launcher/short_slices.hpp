// The kernel's scheduler, where a job has more threads than cores.
#pragma once

namespace verbena::apps {

/// From now on this thread, and those that it starts, compute for 0.1 ms at a stretch while others want the
/// core, and when they wake get one so much sooner: by default that is some milliseconds, for which whoever
/// waits for an answer of theirs waits, too. Needs Linux 6.12; before that, and under another policy than the
/// usual one, nothing changes.
void ask_for_short_slices();

}  // namespace verbena::apps
