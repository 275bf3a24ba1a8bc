# cmake -D BUILD=… -D WORK=… -D CONSUMER=… -D COMPILER=… -D PYTHON=… -P install_test.cmake
file(REMOVE_RECURSE ${WORK})

function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
endfunction()

run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)
run(${CMAKE_COMMAND} -G Ninja -S ${CONSUMER} -B ${WORK}/build -D CMAKE_PREFIX_PATH=${WORK}/prefix
    -D CMAKE_CXX_COMPILER=${COMPILER})
run(${CMAKE_COMMAND} --build ${WORK}/build)
run(${WORK}/build/consumer_verbena)
run(${WORK}/build/consumer_static)
run(${CONSUMER}/late.py ${WORK}/prefix)

# Without CMake.
file(GLOB_RECURSE pkg_config_file ${WORK}/prefix/*/verbena.pc)
cmake_path(GET pkg_config_file PARENT_PATH pkg_config_path)
execute_process(COMMAND ${CMAKE_COMMAND} -E env PKG_CONFIG_PATH=${pkg_config_path} pkg-config --cflags --libs "verbena >= 0.2"
                OUTPUT_VARIABLE flags COMMAND_ERROR_IS_FATAL ANY)
separate_arguments(flags UNIX_COMMAND "${flags}")
cmake_path(GET pkg_config_path PARENT_PATH libraries)
run(${COMPILER} -std=c++20 -O0 ${CONSUMER}/../../../apps/hello/hello.cpp -o ${WORK}/hello ${flags} -Wl,-rpath,${libraries})
run(${WORK}/hello)

# What the program has written about itself lies where man and shells look.
foreach(file man/man1/verbena-run-lda.1 bash-completion/completions/verbena zsh/site-functions/_verbena
             fish/vendor_completions.d/verbena.fish)
  if(NOT EXISTS ${WORK}/prefix/share/${file})
    message(FATAL_ERROR "share/${file} is not installed")
  endif()
  file(SIZE ${WORK}/prefix/share/${file} size)
  if(size EQUAL 0)
    message(FATAL_ERROR "share/${file} is empty")
  endif()
endforeach()

# The Python package, where it is built, finds the library where both were put.
file(GLOB package "${WORK}/prefix/lib/python*/*/verbena")
if(package AND PYTHON)
  cmake_path(GET package PARENT_PATH packages)
  run(${CMAKE_COMMAND} -E env PYTHONPATH=${packages} ${PYTHON} -c "__import__('verbena').init().close()")
endif()
