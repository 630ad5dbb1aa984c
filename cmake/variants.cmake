# Writes the planner's table of kernels: every row that a file in FOLDER defines, into OUT. Run while building, so that a
# new row in a file that is there already is found, too.

file(GLOB files ${FOLDER}/*.c)
list(SORT files)
set(declarations "")
set(rows "")
foreach(file IN LISTS files)
    file(STRINGS ${file} lines REGEX "^const struct variant [a-z0-9_]+ = {")
    foreach(line IN LISTS lines)
        string(REGEX REPLACE "^const struct variant ([a-z0-9_]+) = {.*" "\\1" name "${line}")
        string(APPEND declarations "extern const struct variant ${name};\n")
        string(APPEND rows "    &${name},\n")
    endforeach()
endforeach()
file(WRITE ${OUT} "#include \"plan/variants.h\"\n\n${declarations}\nconst struct variant *const variants[] = {\n${rows}    NULL,\n};\n")
