// The data that comes with the program: paths from the top of its sources.
#pragma once

namespace verbena::apps {

inline constexpr const char* kBundledChapters = "data/kjv-chapters.tsv.gz";
inline constexpr const char* kBundledTriples = "data/wn18rr";

}  // namespace verbena::apps
