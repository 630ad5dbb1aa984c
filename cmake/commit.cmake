# cmake -DSOURCE=<repository> -DOUT=<file.h> -P commit.cmake
# Writes the commit of SOURCE as the macro WHERRY_GIT, "" outside git, "-dirty" after it where files differ from it. Runs in
# every build, because no file says when a commit was made; OUT is written where it changes.
execute_process(COMMAND git -C "${SOURCE}" describe --always --dirty --abbrev=12
    OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
set(text "#define WHERRY_GIT \"${commit}\"\n")
set(before "")
if(EXISTS "${OUT}")
    file(READ "${OUT}" before)
endif()
if(NOT text STREQUAL before)
    file(WRITE "${OUT}" "${text}")
endif()
