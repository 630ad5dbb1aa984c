# wherry-serve: a program of its own, so that neither the library nor the command needs an HTTP library.

set(WHERRY_SERVE AUTO CACHE STRING "Build wherry-serve, which answers over HTTP: ON, OFF, or AUTO, where libmicrohttpd is there")
if(NOT WHERRY_TOOL OR WHERRY_SERVE STREQUAL "OFF")
    return()
endif()
if(UNIX)
    pkg_check_modules(MICROHTTPD IMPORTED_TARGET libmicrohttpd>=0.9.71)
endif()
if(NOT MICROHTTPD_FOUND)
    if(NOT WHERRY_SERVE STREQUAL "AUTO")
        message(FATAL_ERROR "WHERRY_SERVE is ${WHERRY_SERVE}, and libmicrohttpd (0.9.71 or later) was not found; it is for Unix systems")
    endif()
    message(STATUS "No wherry-serve: libmicrohttpd was not found")
    return()
endif()

# Of the command's it has what makes texts and numbers, of the library's inside what the command has; all else by public calls.
file(GLOB serve_sources CONFIGURE_DEPENDS tools/serve/*.c)
list(REMOVE_ITEM serve_sources ${PROJECT_SOURCE_DIR}/tools/serve/main.c)
add_library(serve_objects OBJECT EXCLUDE_FROM_ALL ${serve_sources})
target_include_directories(serve_objects PUBLIC tools/serve tools core core/include)
target_link_libraries(serve_objects PUBLIC PkgConfig::JANSSON PkgConfig::MICROHTTPD Threads::Threads)
target_compile_definitions(serve_objects PUBLIC _DEFAULT_SOURCE $<$<TARGET_EXISTS:wherry_static>:WHERRY_STATIC>)
set(serve_shared tools/complain.c tools/names.c tools/plain_text.c tools/processor.c tools/sparse.c tools/system.c tools/system_stop.c
    core/base/json.c core/base/number.c core/base/platform_cores.c core/base/platform_locale.c core/base/utf8.c)
list(TRANSFORM serve_shared PREPEND ${PROJECT_SOURCE_DIR}/)
# What the program is linked with besides its own files; tests have another with files of theirs.
function(wherry_serve_program program)
    target_sources(${program} PRIVATE ${serve_shared})
    target_include_directories(${program} PRIVATE $<TARGET_PROPERTY:serve_objects,INCLUDE_DIRECTORIES>)
    target_link_libraries(${program} PRIVATE $<IF:$<TARGET_EXISTS:wherry_static>,wherry_static,wherry>
        PkgConfig::JANSSON PkgConfig::MICROHTTPD Threads::Threads m)
    target_compile_definitions(${program} PRIVATE _DEFAULT_SOURCE $<$<TARGET_EXISTS:wherry_static>:WHERRY_STATIC>)
endfunction()
add_executable(wherry_serve tools/serve/main.c $<TARGET_OBJECTS:serve_objects>)
set_target_properties(wherry_serve PROPERTIES OUTPUT_NAME wherry-serve)
wherry_serve_program(wherry_serve)
