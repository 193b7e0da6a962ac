// The process grid: order of the ranks, groups, drawing.
#include "comm_fixture.h"

#include "parallel/grid.h"

static void ranks_and_places_are_inverse(void **state)
{
    (void)state;
    grid_shape shape = {.pipe = 3, .data = 4, .tensor = 5};
    for (int r = 0; r < 60; r++)
        assert_int_equal(grid_rank(&shape, grid_place_of(&shape, r)), r);
    grid_place place = grid_place_of(&shape, 47);
    assert_int_equal(place.pipe, 2); // 47 = (2 * 4 + 1) * 5 + 2
    assert_int_equal(place.data, 1);
    assert_int_equal(place.tensor, 2);
}

static void a_grid_must_fill_the_world(void **state)
{
    (void)state;
    parallel_grid grid;
    grid_shape small = {.pipe = 1, .data = size + 1, .tensor = 1};
    grid_shape none = {.pipe = 1, .data = 0, .tensor = 2};
    grid_shape huge = {.pipe = 1 << 30, .data = 1 << 30, .tensor = 16}; // 2^64
    assert_fails(STATUS_ERR_CONFIG, "do not make the world", grid_create(world, &small, &grid));
    assert_fails(STATUS_ERR_CONFIG, "each is at least 1", grid_create(world, &none, &grid));
    assert_fails(STATUS_ERR_CONFIG, "do not make the world", grid_check(&huge, 0));
}

// The sum over a group of the world ranks in it, next to what the coordinates say.
static bool sums_to(comm_group *line, int first, int stride, int count)
{
    int32_t sum = rank, expected = 0;
    for (int i = 0; i < count; i++)
        expected += first + i * stride;
    return comm_allreduce(line, COMM_CONTROL, COMM_SUM, &sum, 1, DTYPE_I32) == STATUS_OK &&
           sum == expected && comm_group_size(line) == count;
}

static void every_grid_of_the_world_has_its_groups(void **state)
{
    (void)state;
    for (int pipe = 1; pipe <= size; pipe++)
        for (int data = 1; data <= size; data++)
            for (int tensor = 1; tensor <= size; tensor++) {
                if (pipe * data * tensor != size)
                    continue;
                grid_shape shape = {pipe, data, tensor};
                parallel_grid g;
                assert_ok(grid_create(world, &shape, &g));
                grid_place p = g.place;
                bool ok = comm_group_rank(g.pipe) == p.pipe && comm_group_rank(g.data) == p.data;
                ok = ok && comm_group_rank(g.tensor) == p.tensor;
                ok = ok && comm_group_rank(g.zero) == p.data;
                ok = ok && comm_group_dimension(g.zero) == COMM_ZERO;
                int row = p.pipe * data * tensor;
                ok = sums_to(g.tensor, row + p.data * tensor, 1, tensor) && ok;
                ok = sums_to(g.data, row + p.tensor, tensor, data) && ok;
                ok = sums_to(g.zero, row + p.tensor, tensor, data) && ok;
                ok = sums_to(g.pipe, p.data * tensor + p.tensor, data * tensor, pipe) && ok;
                assert_on_all(ok, "a group of %d x %d x %d is wrong", pipe, data, tensor);
                grid_destroy(&g);
            }
}

static void a_grid_is_drawn_stage_by_stage(void **state)
{
    (void)state;
    char text[2048];
    grid_shape shape = {.pipe = 2, .data = 2, .tensor = 2};
    assert_string_equal(grid_describe(&shape, text, sizeof text), "           data 0  data 1\n"
                                                                  "pipe 0        0-1     2-3\n"
                                                                  "pipe 1        4-5     6-7\n");
    grid_shape wide = {.pipe = 1, .data = 100, .tensor = 1};
    assert_non_null(strstr(grid_describe(&wide, text, sizeof text), "data 7  ...\n"));
    grid_shape deep = {.pipe = 100, .data = 1, .tensor = 1};
    assert_non_null(strstr(grid_describe(&deep, text, sizeof text), "pipe 15        15\n...\n"));
    char little[12];
    assert_int_equal(strlen(grid_describe(&deep, little, sizeof little)), 11);
}

int main(int argc, char **argv)
{
    if (!world_begin(argc, argv))
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_and_places_are_inverse),
        cmocka_unit_test(a_grid_must_fill_the_world),
        cmocka_unit_test(every_grid_of_the_world_has_its_groups),
        cmocka_unit_test(a_grid_is_drawn_stage_by_stage),
    };
    int failures = cmocka_run_group_tests_name("grid", tests, NULL, NULL);
    comm_destroy(world);
    return failures;
}
