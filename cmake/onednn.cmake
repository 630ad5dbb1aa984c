# oneDNN's headers alone, where they are: who asks for its products has the library of their major version loaded
# (backends/cpu/onednn.c). Sets WHERRY_ONEDNN_HEADERS, and WHERRY_ONEDNN_NAME to what the loader knows the library by.

set(WHERRY_ONEDNN_HEADERS)
if(WHERRY_ONEDNN AND UNIX AND NOT APPLE)
    find_path(DNNL_HEADERS oneapi/dnnl/dnnl_version.h)
    find_library(DNNL_LIBRARY dnnl)
    if(DNNL_HEADERS)
        set(WHERRY_ONEDNN_HEADERS ${DNNL_HEADERS})
        file(STRINGS ${DNNL_HEADERS}/oneapi/dnnl/dnnl_version.h major REGEX "#define DNNL_VERSION_MAJOR +[0-9]+")
        string(REGEX REPLACE "[^0-9]+" "" major "${major}")
        set(WHERRY_ONEDNN_NAME libdnnl.so.${major})
        if(DNNL_LIBRARY AND IS_SYMLINK ${DNNL_LIBRARY}) # Debian 13: libdnnl.so.3.6, of version 3.7
            file(READ_SYMLINK ${DNNL_LIBRARY} linked)
            get_filename_component(WHERRY_ONEDNN_NAME ${linked} NAME)
        endif()
        set_source_files_properties(backends/cpu/onednn.c backends/cpu/onednn_steps.c PROPERTIES
            COMPILE_DEFINITIONS "WHERRY_HAVE_ONEDNN;WHERRY_ONEDNN_NAME=\"${WHERRY_ONEDNN_NAME}\"")
        if(NOT DNNL_HEADERS IN_LIST CMAKE_C_IMPLICIT_INCLUDE_DIRECTORIES)
            set_source_files_properties(backends/cpu/onednn.c PROPERTIES INCLUDE_DIRECTORIES ${DNNL_HEADERS})
        endif()
        message(STATUS "oneDNN's headers found: sessions may ask for ${WHERRY_ONEDNN_NAME}")
    else()
        message(STATUS "No oneDNN headers (libdnnl-dev): sessions can't ask for it")
    endif()
endif()
