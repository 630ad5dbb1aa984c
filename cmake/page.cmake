# Puts the report's page together: tools/report/page/page.html with the files that its #include lines name, as a C array.
# $<TARGET_OBJECTS:report_page> is what to link.

set(folder ${PROJECT_SOURCE_DIR}/tools/report/page)
set(out ${PROJECT_BINARY_DIR}/page/report_page.c)
set(embed ${PROJECT_SOURCE_DIR}/cmake/embed.cmake)
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/page)
file(GLOB page_parts CONFIGURE_DEPENDS ${folder}/*.html ${folder}/*.css ${folder}/*.js)
add_custom_command(OUTPUT ${out} DEPENDS ${page_parts} ${embed}
    COMMAND ${CMAKE_COMMAND} -DIN=${folder}/page.html -DOUT=${out} -DNAME=report_page -P ${embed})
add_library(report_page OBJECT EXCLUDE_FROM_ALL ${out})
