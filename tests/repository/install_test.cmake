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

# The Python package, where it is built, finds the library where both were put.
file(GLOB package "${WORK}/prefix/lib/python*/*/verbena")
if(package AND PYTHON)
  cmake_path(GET package PARENT_PATH packages)
  run(${CMAKE_COMMAND} -E env PYTHONPATH=${packages} ${PYTHON} -c "__import__('verbena').init().close()")
endif()
