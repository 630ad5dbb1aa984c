# Toolchain file: builds for macOS 11 and later on Apple's processors (-DCMAKE_OSX_ARCHITECTURES=x86_64: on Intel's). On a Mac
# with Xcode's command line tools; elsewhere with the compilers of a cross toolchain, given as CMAKE_C_COMPILER, and its SDK as
# CMAKE_OSX_SYSROOT (docs/macos.md).
if(NOT CMAKE_HOST_SYSTEM_NAME STREQUAL "Darwin")
    set(CMAKE_SYSTEM_NAME Darwin)
    set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
    set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
    set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
    set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
endif()
if(NOT CMAKE_OSX_ARCHITECTURES)
    set(CMAKE_OSX_ARCHITECTURES arm64 CACHE STRING "Processor")
endif()
set(CMAKE_SYSTEM_PROCESSOR ${CMAKE_OSX_ARCHITECTURES})
set(CMAKE_OSX_DEPLOYMENT_TARGET 11.0 CACHE STRING "The oldest macOS")
