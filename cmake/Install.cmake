# Installs what an embedding program needs: find_package(verbena), target verbena::worker, headers under their
# own paths below include/verbena; and the program.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# The library's public headers, closed under inclusion (the install test compiles each from the installed tree).
set(public_headers
    worker/session.hpp
    worker/keys.hpp
    worker/data_cursor.hpp
    worker/sampling.hpp
    worker/table.hpp
    consistency/a_bsp.hpp
    consistency/asp.hpp
    consistency/bounded_delay.hpp
    consistency/bsp.hpp
    consistency/essp.hpp
    consistency/model.hpp
    consistency/rules.hpp
    consistency/sequential.hpp
    consistency/ssp.hpp
    consistency/vap.hpp
    protocol/allocation.hpp
    protocol/partition.hpp
    protocol/update_rule.hpp
    protocol/value_type.hpp
    base/word_copy.hpp
    transport/transport.hpp
    transport/backends.hpp
    transport/secret.hpp
    transport/shm/shm_transport.hpp
    transport/verbs/verbs_transport.hpp)

foreach(library base transport consistency protocol worker)
  set_target_properties(verbena_${library} PROPERTIES EXPORT_NAME ${library})
  target_compile_features(verbena_${library} INTERFACE cxx_std_20)
  target_include_directories(verbena_${library} INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/verbena>)
  install(TARGETS verbena_${library} EXPORT verbena-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
endforeach()
foreach(header IN LISTS public_headers)
  cmake_path(GET header PARENT_PATH folder)
  install(FILES ${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/verbena/${folder})
endforeach()
if(TARGET verbena)
  install(TARGETS verbena RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

set(package_directory ${CMAKE_INSTALL_LIBDIR}/cmake/verbena)
install(EXPORT verbena-targets NAMESPACE verbena:: DESTINATION ${package_directory})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/verbena-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_SOURCE_DIR}/cmake/verbena-config.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/verbena-config-version.cmake DESTINATION ${package_directory})
