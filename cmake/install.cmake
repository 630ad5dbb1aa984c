# Installing. find_package(wherry) gives wherry::wherry; with COMPONENTS static also wherry::static. pkg-config gives wherry and
# wherry-static. All of it finds its prefix by where it lies, so that the folder can be moved.

include(CMakePackageConfigHelpers)

set(cmake_folder ${CMAKE_INSTALL_LIBDIR}/cmake/wherry)
if(TARGET wherry)
    install(TARGETS wherry EXPORT wherry RUNTIME COMPONENT library LIBRARY COMPONENT library NAMELINK_COMPONENT dev
        ARCHIVE COMPONENT dev)
    install(EXPORT wherry NAMESPACE wherry:: FILE wherryTargets.cmake DESTINATION ${cmake_folder} COMPONENT dev)
endif()
install(DIRECTORY core/include/wherry DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dev)
install(FILES examples/embed.c examples/gradients.c DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples COMPONENT dev)
configure_package_config_file(cmake/wherryConfig.cmake.in wherryConfig.cmake INSTALL_DESTINATION ${cmake_folder})
write_basic_package_version_file(wherryConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/wherryConfig.cmake ${PROJECT_BINARY_DIR}/wherryConfigVersion.cmake
    DESTINATION ${cmake_folder} COMPONENT dev)

# One of GNUInstallDirs' folders as a .pc file writes it: below ${prefix}, unless it was given as an absolute path.
function(pc_folder folder result)
    if(IS_ABSOLUTE "${folder}")
        set(${result} "${folder}" PARENT_SCOPE)
    else()
        set(${result} "\${prefix}/${folder}" PARENT_SCOPE)
    endif()
endfunction()
pc_folder("${CMAKE_INSTALL_LIBDIR}" WHERRY_PC_LIBDIR)
pc_folder("${CMAKE_INSTALL_INCLUDEDIR}" WHERRY_PC_INCLUDEDIR)
set(WHERRY_PC_PREFIX "${CMAKE_INSTALL_PREFIX}")
if(NOT IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
    file(RELATIVE_PATH up "/prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/prefix")
    string(REGEX REPLACE "/$" "" up "${up}")
    set(WHERRY_PC_PREFIX "\${pcfiledir}/${up}")
endif()
# What a program that links the static library needs besides.
string(REGEX REPLACE "[A-Z0-9]+=([^;]+)" "\\1" modules "${WHERRY_MODULES}")
list(JOIN modules " " WHERRY_PC_REQUIRES)
set(WHERRY_PC_SYSTEM "")
foreach(library IN LISTS CMAKE_THREAD_LIBS_INIT WHERRY_SYSTEM_LIBRARIES)
    if(NOT library MATCHES "^-")
        set(library -l${library})
    endif()
    string(APPEND WHERRY_PC_SYSTEM " ${library}")
endforeach()

set(pc_files)
if(TARGET wherry)
    list(APPEND pc_files wherry)
endif()
if(TARGET wherry_static)
    install(TARGETS wherry_static EXPORT wherry_static COMPONENT dev)
    install(EXPORT wherry_static NAMESPACE wherry:: FILE wherryStaticTargets.cmake DESTINATION ${cmake_folder} COMPONENT dev)
    list(APPEND pc_files wherry-static)
    set(WHERRY_PC_ARCHIVE ${CMAKE_STATIC_LIBRARY_PREFIX}wherry${CMAKE_STATIC_LIBRARY_SUFFIX})
endif()
foreach(name IN LISTS pc_files)
    configure_file(cmake/${name}.pc.in ${name}.pc @ONLY)
    install(FILES ${PROJECT_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)
endforeach()

if(WHERRY_TOOL)
    install(TARGETS wherry_tool COMPONENT tool)
    install(FILES docs/wherry.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT tool OPTIONAL)
endif()
# The server, a program and a package of its own, where the build has one.
if(TARGET wherry_serve)
    install(TARGETS wherry_serve COMPONENT serve)
    install(FILES docs/wherry-serve.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT serve OPTIONAL)
endif()

# Takes away what the last cmake --install of this build wrote.
add_custom_target(uninstall VERBATIM
    COMMAND ${CMAKE_COMMAND} -DBUILD=${PROJECT_BINARY_DIR} -P ${PROJECT_SOURCE_DIR}/cmake/uninstall.cmake)
include(cmake/packages.cmake)
