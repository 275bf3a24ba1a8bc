# find_package(verbena): the target verbena::worker and what it stands on.
include(CMakeFindDependencyMacro)
find_dependency(Threads)
find_dependency(absl)
find_dependency(fmt)
find_dependency(spdlog)
find_dependency(PkgConfig)
pkg_check_modules(JEMALLOC REQUIRED QUIET IMPORTED_TARGET jemalloc)
include(${CMAKE_CURRENT_LIST_DIR}/verbena-targets.cmake)
