# Everything comes from the distribution's packages (scripts/setup names them).
find_package(Threads REQUIRED)
find_package(absl REQUIRED)
find_package(TBB REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
# Compiled here where a sanitizer must see how it synchronises: once, for as headers alone it would cost each user a
# quarter of a minute.
set(VERBENA_SPDLOG spdlog::spdlog)
if(VERBENA_SANITIZE)
  add_library(verbena_spdlog STATIC cmake/spdlog.cpp)
  target_compile_definitions(verbena_spdlog PUBLIC SPDLOG_COMPILED_LIB SPDLOG_FMT_EXTERNAL)
  cold_code(verbena_spdlog)
  target_link_libraries(verbena_spdlog PUBLIC fmt::fmt Threads::Threads)
  set(VERBENA_SPDLOG verbena_spdlog)
endif()
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(ZLIB REQUIRED)
find_package(ICU REQUIRED COMPONENTS uc)
find_package(OpenSSL REQUIRED COMPONENTS Crypto SSL)
find_package(PkgConfig REQUIRED)
pkg_check_modules(JEMALLOC REQUIRED IMPORTED_TARGET jemalloc)
pkg_check_modules(HWY REQUIRED IMPORTED_TARGET libhwy)
pkg_check_modules(ZSTD REQUIRED IMPORTED_TARGET libzstd)
pkg_check_modules(XXHASH REQUIRED libxxhash)  # its header only, which has all of its functions
# Found here so that a missing package shows at once; the verbs backend links them.
pkg_check_modules(IBVERBS REQUIRED IMPORTED_TARGET libibverbs)
pkg_check_modules(RDMACM REQUIRED IMPORTED_TARGET librdmacm)
pkg_check_modules(PMIX REQUIRED IMPORTED_TARGET pmix)
pkg_check_modules(CURL REQUIRED libcurl)  # its headers only: the library is loaded where etcd is used
