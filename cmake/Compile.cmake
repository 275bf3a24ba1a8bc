# Language level, warnings and sanitizers, the same for every target of ours.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")

# Assertions stay on in release builds: they guard invariants of our own, never data of others.
set(CMAKE_CXX_FLAGS_RELEASE "-O3 -g1")
set(CMAKE_CXX_FLAGS_DEBUG "-O0 -g")

option(VERBENA_JOIN_SOURCES "join the sources of a target and precompile the tests' headers" ON)

add_library(verbena_compile INTERFACE)
target_include_directories(verbena_compile INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/include)
target_compile_options(verbena_compile INTERFACE
  -Wall -Wextra -Wshadow -Wconversion -Wsign-conversion -Wold-style-cast -Wnon-virtual-dtor
  -Woverloaded-virtual -Wcast-qual -Werror
  # A designated initializer leaves the rest to the members' defaults, on purpose.
  -Wno-missing-field-initializers
  # One result on every machine: a fused multiply-add where the compiler fancies it would not give that.
  -ffp-contract=off
  # Nobody asks for errno or the flags of exceptions after a square root or a division, which could not be done for
  # several numbers at once otherwise.
  -fno-math-errno -fno-trapping-math
  $<$<CXX_COMPILER_ID:Clang>:-Wthread-safety>
  # A note about the ABI of old gcc versions, none of which meet here.
  $<$<CXX_COMPILER_ID:GNU>:-Wno-psabi -Wno-restrict>)
find_program(LLD ld.lld)
if(LLD)
  add_link_options(-fuse-ld=lld)  # a third of the usual linker's time, for a hundred programs
endif()

# Instruction sets for which Highway compiles nothing. Vectors without a fixed size cannot be kept in arrays; what has
# SSSE3 or SSE4 and no AVX2 is older than 2013, and runs as SSE2.
add_compile_definitions(
  "HWY_DISABLED_TARGETS=(HWY_SVE|HWY_SVE2|HWY_SVE_256|HWY_SVE2_128|HWY_RVV|HWY_SSSE3|HWY_SSE4)")

if(VERBENA_SANITIZE)
  add_compile_options("-fsanitize=${VERBENA_SANITIZE}" -fno-omit-frame-pointer)
  add_link_options("-fsanitize=${VERBENA_SANITIZE}")
  if(VERBENA_SANITIZE MATCHES "address,undefined")
    # A third of the time to compile, and what they find the address sanitizer finds, too, when the address is used.
    add_compile_options(-fno-sanitize=pointer-overflow,object-size,null,vptr)
  endif()
  # clang would compile the kernels for an emulation of vectors, too, a quarter of their time; gcc 12 cannot, and has single
  # numbers in its place.
  add_compile_definitions(HWY_BROKEN_EMU128=1)
  # Instrumented code makes gcc see uninitialised uses inside the standard library (std::regex) that are none.
  target_compile_options(verbena_compile INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
endif()

# What guides a fuzzer; little enough for tests to run with it, too.
if(VERBENA_FUZZ)
  add_compile_options(-fsanitize-coverage=inline-8bit-counters,pc-table)
endif()

# verbena_library(NAME SOURCES … DEPENDS …): a library verbena_NAME, alias verbena::NAME.
function(verbena_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS;PRIVATE_DEPENDS" ${ARGN})
  add_library(verbena_${name} STATIC ${ARG_SOURCES})
  add_library(verbena::${name} ALIAS verbena_${name})
  target_link_libraries(verbena_${name} PUBLIC $<BUILD_INTERFACE:verbena_compile> ${ARG_DEPENDS}
                        PRIVATE ${ARG_PRIVATE_DEPENDS})
  join_sources(verbena_${name})
endfunction()

# What is parsed is headers, mostly: sources that are compiled together share them. Few enough at a time for both cores
# to have work, and for a change to one to be compiled soon. Any two of a target can come together, so none declares for
# itself what another does (repository_test).
function(join_sources target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${VERBENA_JOIN_SOURCES} UNITY_BUILD_BATCH_SIZE 12)
endfunction()

# Nothing in it is hot, and what it includes is costly to optimise, the more so with what sanitizers add.
set(cold_options $<$<CONFIG:Release>:-O1>)
if(VERBENA_SANITIZE)
  set(cold_options -O0)
endif()
function(cold_code target)
  target_compile_options(${target} PRIVATE ${cold_options})
endfunction()

# verbena_precompiled(NAME OPTIONS … DEPENDS … HEADERS …): headers for use_precompiled(TARGET NAME). The targets must be
# compiled alike: executables, with these options, and with what DEPENDS defines.
function(verbena_precompiled name)
  cmake_parse_arguments(ARG "" "" "OPTIONS;DEPENDS;HEADERS" ${ARGN})
  if(NOT VERBENA_JOIN_SOURCES)
    return()
  endif()
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp CONTENT "int main() {}\n")
  add_executable(${name} ${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp)
  target_link_libraries(${name} PRIVATE verbena_compile ${ARG_DEPENDS})
  target_compile_options(${name} PRIVATE ${ARG_OPTIONS})
  target_precompile_headers(${name} PRIVATE ${ARG_HEADERS})
endfunction()
function(use_precompiled target name)
  if(VERBENA_JOIN_SOURCES)
    target_precompile_headers(${target} REUSE_FROM ${name})
  endif()
endfunction()
