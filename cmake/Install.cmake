# Installs what a program of a user's own needs: the public headers, the library, shared and static, its CMake package and,
# for other build systems, its pkg-config file; and our own program with its manual pages and completions of shells.
#
#   find_package(verbena)                     verbena::verbena, the shared library
#   find_package(verbena COMPONENTS static)   verbena::static, too
#   pkg-config --cflags --libs verbena        the shared library; C++20 is to be asked for
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(DIRECTORY include/verbena DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

set(package_directory ${CMAKE_INSTALL_LIBDIR}/cmake/verbena)
set_target_properties(verbena_shared PROPERTIES EXPORT_NAME verbena)
target_compile_features(verbena_shared INTERFACE cxx_std_20)
install(TARGETS verbena_shared EXPORT verbena-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT verbena-targets NAMESPACE verbena:: DESTINATION ${package_directory})

add_library(verbena_static INTERFACE)
target_link_libraries(verbena_static INTERFACE verbena_job)
foreach(library base checkpoint transport cluster consistency protocol server worker job static)
  set_target_properties(verbena_${library} PROPERTIES EXPORT_NAME ${library})
  target_compile_features(verbena_${library} INTERFACE cxx_std_20)
  install(TARGETS verbena_${library} EXPORT verbena-static-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
          INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
endforeach()
install(EXPORT verbena-static-targets NAMESPACE verbena:: DESTINATION ${package_directory})

install(TARGETS verbena RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})

# The program itself writes its manual pages and completions, so none is out of date. A build for another kind of processor,
# which cannot run it, has none.
function(install_what_the_program_writes)
  set(manual ${CMAKE_CURRENT_BINARY_DIR}/manual)
  set(completions ${CMAKE_CURRENT_BINARY_DIR}/completions)
  set(written ${manual}/verbena.1)
  set(commands COMMAND ${CMAKE_COMMAND} -E rm -rf ${manual} COMMAND verbena manual ${manual}
               COMMAND ${CMAKE_COMMAND} -E make_directory ${completions})
  foreach(completion bash:verbena:bash-completion/completions zsh:_verbena:zsh/site-functions
                     fish:verbena.fish:fish/vendor_completions.d)
    string(REGEX MATCH "(.*):(.*):(.*)" match ${completion})
    set(script ${completions}/${CMAKE_MATCH_2})
    list(APPEND commands COMMAND verbena completion ${CMAKE_MATCH_1} > ${script})
    list(APPEND written ${script})
    install(FILES ${script} DESTINATION ${CMAKE_INSTALL_DATADIR}/${CMAKE_MATCH_3})
  endforeach()
  add_custom_command(OUTPUT ${written} ${commands} DEPENDS verbena COMMENT "Writing manual pages and completions of shells" VERBATIM)
  add_custom_target(verbena_manual ALL DEPENDS ${written})
  install(DIRECTORY ${manual}/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 FILES_MATCHING PATTERN *.1)
endfunction()
if(CMAKE_CROSSCOMPILING AND NOT CMAKE_CROSSCOMPILING_EMULATOR)
  message(STATUS "Manual pages and completions of shells are left out: they need CMAKE_CROSSCOMPILING_EMULATOR")
else()
  install_what_the_program_writes()
endif()

write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/verbena-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_SOURCE_DIR}/cmake/verbena-config.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/verbena-config-version.cmake DESTINATION ${package_directory})

# It finds its folders from its own, wherever --prefix puts them; those with a path of their own are not moved by that.
foreach(folder INCLUDE LIB)
  string(TOLOWER ${folder}dir_of_pkgconfig variable)
  set(${variable} ${CMAKE_INSTALL_${folder}DIR})
  cmake_path(ABSOLUTE_PATH ${variable} BASE_DIRECTORY "\${prefix}")
endforeach()
if(IS_ABSOLUTE ${CMAKE_INSTALL_LIBDIR})
  set(prefix_of_pkgconfig ${CMAKE_INSTALL_PREFIX})
else()
  file(RELATIVE_PATH prefix_of_pkgconfig /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
  string(REGEX REPLACE "/$" "" prefix_of_pkgconfig "\${pcfiledir}/${prefix_of_pkgconfig}")
endif()
configure_file(cmake/verbena.pc.in ${CMAKE_CURRENT_BINARY_DIR}/verbena.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/verbena.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
