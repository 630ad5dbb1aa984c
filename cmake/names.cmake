# The names that the libraries give: those that the public headers declare with WHERRY_API, and no others.

# Every public name, from the headers themselves.
function(wherry_public_names result)
    set(names "")
    file(GLOB headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/core/include/wherry/*.h)
    foreach(header IN LISTS headers)
        set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${header})
        file(READ ${header} text)
        string(REGEX MATCHALL "\nWHERRY_API [^;(]*\\(" declarations "${text}")
        foreach(declaration IN LISTS declarations)
            string(REGEX MATCH "(wherry_[a-z0-9_]+)\\($" _ "${declaration}")
            list(APPEND names ${CMAKE_MATCH_1})
        endforeach()
    endforeach()
    list(REMOVE_DUPLICATES names)
    set(${result} ${names} PARENT_SCOPE)
endfunction()

# A list of the public names for the linker to export. Where a library is a DLL it stands for dllexport, which would also
# reach every program that the static library is linked into, and give it an import library of the DLL's name.
function(wherry_write_def file)
    wherry_public_names(names)
    list(JOIN names "\n" names)
    file(CONFIGURE OUTPUT ${file} CONTENT "EXPORTS\n${names}\n" @ONLY)
endfunction()

# All objects of a library as one, whose inner names are local, so that an application may use them too. On ELF they are
# those of hidden visibility, on Mach-O the linker does this itself, and COFF has no visibility: there all but the public
# ones.
function(wherry_single_object objects result)
    set(out ${PROJECT_BINARY_DIR}/wherry_single${CMAKE_C_OUTPUT_EXTENSION})
    set(list ${PROJECT_BINARY_DIR}/wherry_single.rsp) # a shell's line is too short on Windows
    file(GENERATE OUTPUT ${list} CONTENT "\"$<JOIN:$<TARGET_OBJECTS:${objects}>,\"\n\">\"\n")
    separate_arguments(flags NATIVE_COMMAND "${CMAKE_C_FLAGS}")
    foreach(architecture IN LISTS CMAKE_OSX_ARCHITECTURES)
        list(APPEND flags -arch ${architecture})
    endforeach()
    set(link ${CMAKE_C_COMPILER} ${flags} -r -nostdlib)
    if(APPLE)
        set(commands COMMAND ${link} -o ${out} @${list})
    else()
        set(localize --localize-hidden)
        if(WIN32)
            wherry_public_names(names)
            list(JOIN names "\n" names)
            file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/wherry_names.txt CONTENT "${names}\n" @ONLY)
            set(localize --keep-global-symbols=${PROJECT_BINARY_DIR}/wherry_names.txt)
        endif()
        set(commands COMMAND ${link} -o ${out}.all @${list} COMMAND ${CMAKE_OBJCOPY} ${localize} ${out}.all ${out})
    endif()
    add_custom_command(OUTPUT ${out} DEPENDS ${objects} $<TARGET_OBJECTS:${objects}> ${commands} VERBATIM
        COMMENT "Making inner names local")
    set(${result} ${out} PARENT_SCOPE)
endfunction()
