# The habits of every target: warnings, sanitizers, include root, and the helpers that make modules
# and tests.

add_library(trifold_options INTERFACE)
target_include_directories(trifold_options INTERFACE ${PROJECT_SOURCE_DIR}/src)
target_compile_definitions(trifold_options INTERFACE _GNU_SOURCE)
target_compile_options(trifold_options INTERFACE
    -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wvla
    -fno-math-errno -fno-trapping-math -ffp-contract=off)
target_link_libraries(trifold_options INTERFACE m)
if(TRIFOLD_SANITIZE)
    target_compile_options(trifold_options INTERFACE
        -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
    target_link_options(trifold_options INTERFACE -fsanitize=address,undefined)
endif()
if(TRIFOLD_FUZZERS)
    if(NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
        message(FATAL_ERROR "TRIFOLD_FUZZERS needs clang: -DCMAKE_C_COMPILER=clang")
    endif()
    target_compile_options(trifold_options INTERFACE -fsanitize=fuzzer-no-link)
endif()

# trifold_module(NAME SOURCES a.c b.c DEPENDS base data EXTERNAL PkgConfig::yaml)
# One static library `trifold_NAME`; DEPENDS are modules to its left in the order of layers
# (docs/architecture.md), EXTERNAL are packages, private to the module.
function(trifold_module name)
    cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS;EXTERNAL" ${ARGN})
    add_library(trifold_${name} STATIC ${ARG_SOURCES})
    target_link_libraries(trifold_${name} PUBLIC trifold_options PRIVATE ${ARG_EXTERNAL})
    foreach(module IN LISTS ARG_DEPENDS)
        target_link_libraries(trifold_${name} PUBLIC trifold_${module})
    endforeach()
endfunction()
