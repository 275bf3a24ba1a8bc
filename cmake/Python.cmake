# What the Python package needs, and whether it is there: then `has_python` is set.
#
# The distribution's Python before others that come first in the PATH: its packages are what scripts/setup installs.
# Another one: -D Python3_EXECUTABLE=…
if(NOT DEFINED Python3_EXECUTABLE AND EXISTS /usr/bin/python3)
  set(Python3_EXECUTABLE /usr/bin/python3)
endif()
find_package(Python3 3.9 QUIET COMPONENTS Interpreter Development.Module)
set(missing "")
if(NOT Python3_FOUND)
  set(missing "Python's headers (package python3-dev)")
else()
  execute_process(COMMAND ${Python3_EXECUTABLE} -c "import numpy" RESULT_VARIABLE has_no_numpy OUTPUT_QUIET ERROR_QUIET)
  if(has_no_numpy)
    set(missing "numpy for ${Python3_EXECUTABLE} (package python3-numpy)")
  else()
    set(PYBIND11_NOPYTHON ON)  # what finds Python is above
    find_package(pybind11 2.10 QUIET CONFIG)
    if(NOT pybind11_FOUND)
      set(missing "pybind11 (package pybind11-dev)")
    endif()
  endif()
endif()
set(VERBENA_PYTHON AUTO CACHE STRING "build the Python package: ON, OFF, or AUTO: if all that it needs is there")
if(VERBENA_PYTHON STREQUAL "AUTO" AND missing)
  message(STATUS "The Python package is not built: there is no ${missing}")
elseif(VERBENA_PYTHON AND missing)
  message(FATAL_ERROR "VERBENA_PYTHON=ON: there is no ${missing}")
elseif(VERBENA_PYTHON)
  set(has_python ON)
endif()
if(NOT has_python)
  return()
endif()

execute_process(COMMAND ${Python3_EXECUTABLE} -c "import sysconfig; print(sysconfig.get_config_var('EXT_SUFFIX'))"
                OUTPUT_VARIABLE VERBENA_PYTHON_SUFFIX OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
# Where it looks for packages under /usr/local: Debian's own name, or everybody else's.
execute_process(COMMAND ${Python3_EXECUTABLE} -c "import sys; print('dist-packages' if any('dist-packages' in path for path in sys.path) else 'site-packages')"
                OUTPUT_VARIABLE VERBENA_PYTHON_PACKAGES OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
