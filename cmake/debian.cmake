# Run by cpack before it makes Debian's packages, in their folders: copyright, changelog and compressed pages of the manual.
if(NOT CPACK_GENERATOR STREQUAL "DEB")
    return()
endif()
function(compress file) # FILE -> FILE.gz, the same bytes every time
    execute_process(COMMAND gzip -9nf ${file} COMMAND_ERROR_IS_FATAL ANY)
    file(CHMOD ${file}.gz PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
endfunction()

execute_process(COMMAND date -R -u OUTPUT_VARIABLE date OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
if(DEFINED ENV{SOURCE_DATE_EPOCH})
    execute_process(COMMAND date -R -u -d @$ENV{SOURCE_DATE_EPOCH} OUTPUT_VARIABLE date OUTPUT_STRIP_TRAILING_WHITESPACE
        COMMAND_ERROR_IS_FATAL ANY)
endif()
file(READ ${CPACK_WHERRY_SOURCE}/LICENSE license)
string(REGEX MATCH "Copyright \\(c\\) ([^\n]*)" _ "${license}")
set(holders "${CMAKE_MATCH_1}")
string(REGEX REPLACE "^.*\n\nPermission" "Permission" license "${license}")
string(REGEX REPLACE "\n+$" "" license "${license}")
string(REGEX REPLACE "\n\n" "\n.\n" license "${license}")
string(REPLACE "\n" "\n " license "${license}")

foreach(component IN LISTS CPACK_COMPONENTS_ALL)
    string(TOUPPER ${component} upper)
    set(package ${CPACK_DEBIAN_${upper}_PACKAGE_NAME})
    set(root ${CPACK_TEMPORARY_DIRECTORY}/${component})
    set(doc ${root}/usr/share/doc/${package})
    if(EXISTS ${root}/usr/share/doc/wherry/examples AND NOT package STREQUAL "wherry")
        file(MAKE_DIRECTORY ${doc})
        file(RENAME ${root}/usr/share/doc/wherry/examples ${doc}/examples)
        file(REMOVE_RECURSE ${root}/usr/share/doc/wherry)
    endif()
    file(WRITE ${doc}/copyright "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: wherry

Files: *
Copyright: ${holders}
License: MIT

License: MIT
 ${license}
")
    file(WRITE ${doc}/changelog "wherry (${CPACK_PACKAGE_VERSION}) unstable; urgency=medium

  * See CHANGELOG.md of the source.

 -- ${CPACK_WHERRY_MAINTAINER}  ${date}
")
    compress(${doc}/changelog)
    if(component STREQUAL "library") # which cpack writes wherever a library is; the trigger that the policy wants is there, too
        file(WRITE ${root}/usr/share/lintian/overrides/${package} "# Written by cpack itself, for every shared library.
${package}: maintscript-calls-ldconfig
")
    endif()
    file(GLOB pages ${root}/usr/share/man/man*/*.[1-8])
    foreach(page IN LISTS pages)
        compress(${page})
    endforeach()
    file(GLOB_RECURSE files LIST_DIRECTORIES false ${root}/usr/share/*)
    file(CHMOD ${files} PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
    file(GLOB_RECURSE folders LIST_DIRECTORIES true ${root}/*)
    foreach(folder IN LISTS folders)
        if(IS_DIRECTORY ${folder})
            file(CHMOD ${folder} PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
        endif()
    endforeach()
endforeach()
