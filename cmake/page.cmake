# Puts the report's pages together: page.html (records), tuning.html (tunings), layouts.html (layouts),
# curves.html (logs of trainings) and compilers.html of tools/report/page with the files that their #include lines name, as C arrays. $<TARGET_OBJECTS:report_page> is what to link.

set(folder ${PROJECT_SOURCE_DIR}/tools/report/page)
set(embed ${PROJECT_SOURCE_DIR}/cmake/embed.cmake)
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/page)
file(GLOB page_parts CONFIGURE_DEPENDS ${folder}/*.html ${folder}/*.css ${folder}/*.js)
foreach(page report=page tuning=tuning layouts=layouts curves=curves compilers=compilers)
    string(REGEX MATCH "(.*)=(.*)" _ ${page})
    set(name ${CMAKE_MATCH_1}_page)
    set(out ${PROJECT_BINARY_DIR}/page/${name}.c)
    add_custom_command(OUTPUT ${out} DEPENDS ${page_parts} ${embed}
        COMMAND ${CMAKE_COMMAND} -DNUMBERS=$<BOOL:${MSVC}> -DIN=${folder}/${CMAKE_MATCH_2}.html -DOUT=${out} -DNAME=${name} -P ${embed})
    list(APPEND pages ${out})
endforeach()
# What `wherry quality` takes where it is given no texts.
set(out ${PROJECT_BINARY_DIR}/page/quality_texts.c)
set(texts ${PROJECT_SOURCE_DIR}/data/sentences.txt)
add_custom_command(OUTPUT ${out} DEPENDS ${texts} ${embed}
    COMMAND ${CMAKE_COMMAND} -DNUMBERS=$<BOOL:${MSVC}> -DIN=${texts} -DOUT=${out} -DNAME=quality_texts -P ${embed})
list(APPEND pages ${out})
add_library(report_page OBJECT EXCLUDE_FROM_ALL ${pages})
