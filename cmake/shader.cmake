# cmake -DGLSLC=<compiler> -DTARGET=<vulkan1.1> -DTYPE=<f32, f16 or bf16> -DIN=<shader> -DINCLUDES=<folder> -DSPV=<module> -DOUT=<file.c>
#       -DNAME=<symbol> [-DNUMBERS=ON] [-DCACHE=<folder>] -P shader.cmake
# Compiles a shader, and writes its module as a C array. With CACHE, both are taken from there where any build has put them:
# they lie under a hash of all that makes them, the compiler's version included, so they are never those of another source.
cmake_policy(SET CMP0054 NEW)
set(embed "${CMAKE_CURRENT_LIST_DIR}/embed.cmake")

if(CACHE)
    include("${CMAKE_CURRENT_LIST_DIR}/spirv.cmake")
    spirv_text("${IN}" text)
    file(READ "${embed}" writer)
    file(READ "${CMAKE_CURRENT_LIST_FILE}" caller)
    execute_process(COMMAND "${GLSLC}" --version OUTPUT_VARIABLE version)
    string(SHA256 key "${caller}|${writer}|${GLSLC}|${version}|${TARGET}|${TYPE}|${NUMBERS}|${NAME}|${text}")
    if(EXISTS "${CACHE}/${key}.c") # the last of the two that is written
        file(COPY_FILE "${CACHE}/${key}.spv" "${SPV}")
        file(COPY_FILE "${CACHE}/${key}.c" "${OUT}")
        file(TOUCH "${SPV}" "${OUT}")
        return()
    endif()
endif()

function(run)
    execute_process(COMMAND ${ARGN} RESULT_VARIABLE failed)
    if(failed)
        message(FATAL_ERROR "${IN}: failed: ${ARGN}")
    endif()
endfunction()
set(types -DF16=0)
if(NOT TYPE STREQUAL "f32")
    set(types -DF16=1)
endif()
if(TYPE STREQUAL "bf16")
    list(APPEND types -DBF16=1)
endif()
run("${GLSLC}" --target-env=${TARGET} -O ${types} -I "${INCLUDES}" "${IN}" -o "${SPV}")
run("${CMAKE_COMMAND}" "-DIN=${SPV}" "-DOUT=${OUT}" -DNUMBERS=${NUMBERS} -DNAME=${NAME} -P "${embed}")

if(CACHE)
    string(RANDOM LENGTH 16 part) # renamed when they are whole: another build may look for them
    file(MAKE_DIRECTORY "${CACHE}")
    file(COPY_FILE "${SPV}" "${CACHE}/${part}.spv")
    file(COPY_FILE "${OUT}" "${CACHE}/${part}.c")
    file(RENAME "${CACHE}/${part}.spv" "${CACHE}/${key}.spv")
    file(RENAME "${CACHE}/${part}.c" "${CACHE}/${key}.c")
endif()
