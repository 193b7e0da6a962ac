# Helpers for tests/CMakeLists.txt.

pkg_check_modules(cmocka REQUIRED IMPORTED_TARGET cmocka)

# Threads that wait must not spin: tests share their cores.
set(TRIFOLD_TEST_ENVIRONMENT OMP_WAIT_POLICY=passive)

set(TRIFOLD_MPI_ENVIRONMENT ${TRIFOLD_TEST_ENVIRONMENT}
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_btl_base_warn_component_unused=0
    OMPI_MCA_btl_vader_single_copy_mechanism=none
    # Whole call stacks: components of Open MPI are unloaded before the leak check.
    ASAN_OPTIONS=fast_unwind_on_malloc=0
    LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/lsan.supp:print_suppressions=0)

# add_unit_test(NAME [RANKS 4] [TIMEOUT s] [LABELS l...] [MODULES m...])
# Builds tests/test_NAME.c (or tests/mpi/test_NAME.c where RANKS is given) against the modules and
# runs it, under mpirun where RANKS is given (a list gives one run for each). The test finds its
# golden files through TRIFOLD_GOLDEN.
function(add_unit_test name)
    cmake_parse_arguments(ARG "" "TIMEOUT" "RANKS;LABELS;MODULES" ${ARGN})
    if(NOT ARG_TIMEOUT)
        set(ARG_TIMEOUT 120)
    endif()
    set(folder ${CMAKE_CURRENT_SOURCE_DIR})
    if(ARG_RANKS)
        set(folder ${CMAKE_CURRENT_SOURCE_DIR}/mpi)
    endif()
    add_executable(test_${name} ${folder}/test_${name}.c)
    target_include_directories(test_${name} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
    target_compile_definitions(test_${name} PRIVATE
        TRIFOLD_GOLDEN="${CMAKE_CURRENT_SOURCE_DIR}/golden")
    target_link_libraries(test_${name} PRIVATE trifold_options PkgConfig::cmocka)
    foreach(module IN LISTS ARG_MODULES)
        target_link_libraries(test_${name} PRIVATE trifold_${module})
    endforeach()
    if(NOT ARG_RANKS)
        add_test(NAME ${name} COMMAND test_${name})
        set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "unit;${ARG_LABELS}"
            ENVIRONMENT "${TRIFOLD_TEST_ENVIRONMENT}")
        return()
    endif()
    foreach(ranks IN LISTS ARG_RANKS)
        add_test(NAME ${name}_np${ranks}
            COMMAND ${MPIEXEC_EXECUTABLE} -n ${ranks} --oversubscribe --bind-to none
                $<TARGET_FILE:test_${name}>)
        set_tests_properties(${name}_np${ranks} PROPERTIES TIMEOUT ${ARG_TIMEOUT}
            LABELS "mpi;${ARG_LABELS}" ENVIRONMENT "${TRIFOLD_MPI_ENVIRONMENT}" PROCESSORS 2)
    endforeach()
endfunction()

# add_mpi_run(NAME TEST RANKS [LAUNCH option...] [ARGS argument...])
# Runs test_TEST once more under mpirun, with options for mpirun and arguments for the test.
function(add_mpi_run name test ranks)
    cmake_parse_arguments(ARG "" "" "LAUNCH;ARGS" ${ARGN})
    add_test(NAME ${name}_np${ranks}
        COMMAND ${MPIEXEC_EXECUTABLE} -n ${ranks} --oversubscribe --bind-to none ${ARG_LAUNCH}
            $<TARGET_FILE:test_${test}> ${ARG_ARGS})
    set_tests_properties(${name}_np${ranks} PROPERTIES TIMEOUT 120 LABELS mpi
        ENVIRONMENT "${TRIFOLD_MPI_ENVIRONMENT}" PROCESSORS 2)
endfunction()

# add_cli_test(NAME [TIMEOUT s] [LABELS l...])
# Runs tests/cli/NAME.sh with TRIFOLD set to the program and TRIFOLD_SOURCE to the source tree, in
# an empty folder of its own.
function(add_cli_test name)
    cmake_parse_arguments(ARG "" "TIMEOUT" "LABELS" ${ARGN})
    if(NOT ARG_TIMEOUT)
        set(ARG_TIMEOUT 300)
    endif()
    set(folder ${CMAKE_CURRENT_BINARY_DIR}/cli/${name})
    file(MAKE_DIRECTORY ${folder})
    add_test(NAME cli_${name} COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/cli/${name}.sh
        WORKING_DIRECTORY ${folder})
    set_tests_properties(cli_${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "cli;${ARG_LABELS}"
        ENVIRONMENT "${TRIFOLD_MPI_ENVIRONMENT};TRIFOLD=$<TARGET_FILE:trifold>;TRIFOLD_SOURCE=${PROJECT_SOURCE_DIR}"
        PROCESSORS 2)
endfunction()
