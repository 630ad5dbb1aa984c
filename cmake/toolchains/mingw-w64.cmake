# Toolchain file: builds for 64-bit Windows with mingw-w64. scripts/mingw.sh puts the libraries into build/mingw-root.
set(CMAKE_SYSTEM_NAME Windows)
set(CMAKE_SYSTEM_PROCESSOR x86_64)
set(triple x86_64-w64-mingw32)
set(CMAKE_C_COMPILER ${triple}-gcc)
set(CMAKE_CXX_COMPILER ${triple}-g++)
set(CMAKE_RC_COMPILER ${triple}-windres)
get_filename_component(mingw_root "${CMAKE_CURRENT_LIST_DIR}/../../build/mingw-root" ABSOLUTE)
list(APPEND CMAKE_FIND_ROOT_PATH ${mingw_root} /usr/${triple}) # and those of the command line
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_LIBDIR} ${mingw_root}/lib/pkgconfig)
