# libverbena.so: all that a program of a user's own needs, behind the symbols of the public headers alone.
foreach(library base checkpoint transport cluster consistency protocol server worker job)
  list(APPEND objects $<TARGET_OBJECTS:verbena_${library}>)
endforeach()
add_library(verbena_shared SHARED ${objects})
set(exported_symbols ${CMAKE_CURRENT_LIST_DIR}/exported_symbols.map)
set_target_properties(verbena_shared PROPERTIES OUTPUT_NAME verbena LINKER_LANGUAGE CXX VERSION ${PROJECT_VERSION}
                      SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR} LINK_DEPENDS ${exported_symbols})
# Of the static library only what it stands on: its objects are here already.
target_link_libraries(verbena_shared PRIVATE $<BUILD_INTERFACE:verbena_job>
                      PUBLIC absl::status absl::statusor absl::function_ref)
# Calls between its own functions need no detour.
target_link_options(verbena_shared PRIVATE -Wl,--version-script=${exported_symbols} -Wl,-Bsymbolic-functions
                    -Wl,--no-undefined)
