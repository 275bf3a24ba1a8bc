# Installs what a program of a user's own needs: the public headers, the library, shared and static, and its CMake
# package; and our own program.
#
#   find_package(verbena)                     verbena::verbena, the shared library
#   find_package(verbena COMPONENTS static)   verbena::static, too
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

if(TARGET verbena)
  install(TARGETS verbena RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/verbena-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_SOURCE_DIR}/cmake/verbena-config.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/verbena-config-version.cmake DESTINATION ${package_directory})
