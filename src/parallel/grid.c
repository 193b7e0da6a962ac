#include "parallel/grid.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"

status grid_check(const grid_shape *shape, int world_size)
{
    if (shape->pipe < 1 || shape->data < 1 || shape->tensor < 1)
        return fail(STATUS_ERR_CONFIG,
                    "a grid of %d pipe x %d data x %d tensor ranks; each is at "
                    "least 1",
                    shape->pipe, shape->data, shape->tensor);
    long long product = (long long)shape->pipe * shape->data;
    // Neither factor passes 2^31, so only the third could wrap.
    if (__builtin_mul_overflow(product, shape->tensor, &product) || product != world_size)
        return fail(STATUS_ERR_CONFIG,
                    "%d pipe x %d data x %d tensor ranks do not make the world of %d ranks",
                    shape->pipe, shape->data, shape->tensor, world_size);
    return STATUS_OK;
}

int grid_rank(const grid_shape *shape, grid_place place)
{
    return (place.pipe * shape->data + place.data) * shape->tensor + place.tensor;
}

grid_place grid_place_of(const grid_shape *shape, int world_rank)
{
    return (grid_place){
        .pipe = world_rank / (shape->data * shape->tensor),
        .data = world_rank / shape->tensor % shape->data,
        .tensor = world_rank % shape->tensor,
    };
}

// The group of the ranks that differ from `first` in steps of `stride` ranks.
static status line_create(comm *c, comm_dimension dimension, int first, int stride, int count,
                          comm_group **out)
{
    int *ranks;
    TRY(memory_alloc((size_t)count, sizeof *ranks, "ranks of a group", (void **)&ranks));
    for (int i = 0; i < count; i++)
        ranks[i] = first + i * stride;
    status result = comm_group_create(c, dimension, ranks, count, out);
    memory_free(ranks);
    return result;
}

static status ends_create(comm *c, parallel_grid *grid)
{
    const int last = grid->shape.pipe - 1;
    const int stride = last * grid->shape.data * grid->shape.tensor;
    const bool is_end = last > 0 && (grid->place.pipe == 0 || grid->place.pipe == last);
    grid_place first = grid->place;
    if (is_end)
        first.pipe = 0;
    return line_create(c, COMM_PIPE, grid_rank(&grid->shape, first), stride, is_end ? 2 : 1,
                       &grid->ends);
}

static status create_groups(comm *c, parallel_grid *grid)
{
    const grid_shape *shape = &grid->shape;
    grid_place pipe = grid->place, data = grid->place, tensor = grid->place;
    pipe.pipe = 0;
    data.data = 0;
    tensor.tensor = 0;
    TRY(line_create(c, COMM_PIPE, grid_rank(shape, pipe), shape->data * shape->tensor, shape->pipe,
                    &grid->pipe));
    TRY(line_create(c, COMM_PIPE, grid_rank(shape, pipe), shape->data * shape->tensor, shape->pipe,
                    &grid->pipe_back));
    TRY(ends_create(c, grid));
    TRY(line_create(c, COMM_DATA, grid_rank(shape, data), shape->tensor, shape->data, &grid->data));
    TRY(line_create(c, COMM_TENSOR, grid_rank(shape, tensor), 1, shape->tensor, &grid->tensor));
    return line_create(c, COMM_ZERO, grid_rank(shape, data), shape->tensor, shape->data,
                       &grid->zero);
}

status grid_create(comm *c, const grid_shape *shape, parallel_grid *out)
{
    TRY(grid_check(shape, comm_world_size(c)));
    parallel_grid grid = {.shape = *shape, .place = grid_place_of(shape, comm_world_rank(c))};
    status result = create_groups(c, &grid);
    if (result != STATUS_OK) {
        grid_destroy(&grid);
        return result;
    }
    *out = grid;
    return STATUS_OK;
}

void grid_destroy(parallel_grid *grid)
{
    comm_group_destroy(grid->zero);
    comm_group_destroy(grid->tensor);
    comm_group_destroy(grid->data);
    comm_group_destroy(grid->ends);
    comm_group_destroy(grid->pipe_back);
    comm_group_destroy(grid->pipe);
    *grid = (parallel_grid){0};
}

enum {
    ROWS_MAX = 16,
    COLUMNS_MAX = 8,
    CELL_MAX = 32, // two ranks, a dash and the NUL
};

typedef struct drawing {
    char *text;
    size_t size;
    size_t used;
} drawing;

static void draw(drawing *d, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void draw(drawing *d, const char *format, ...)
{
    if (d->used >= d->size)
        return;
    va_list args;
    va_start(args, format);
    int length = vsnprintf(d->text + d->used, d->size - d->used, format, args);
    va_end(args);
    d->used += length > 0 ? (size_t)length : 0;
}

// The tensor ranks of a cell are neighbours: "6" or "6-7".
static void cell_text(const grid_shape *shape, int pipe, int data, char text[CELL_MAX])
{
    int first = grid_rank(shape, (grid_place){.pipe = pipe, .data = data});
    if (shape->tensor == 1)
        snprintf(text, CELL_MAX, "%d", first);
    else
        snprintf(text, CELL_MAX, "%d-%d", first, first + shape->tensor - 1);
}

char *grid_describe(const grid_shape *shape, char *text, size_t size)
{
    drawing d = {text, size, 0};
    int rows = shape->pipe < ROWS_MAX ? shape->pipe : ROWS_MAX;
    int columns = shape->data < COLUMNS_MAX ? shape->data : COLUMNS_MAX;
    char cell[CELL_MAX], heading[CELL_MAX];
    cell_text(shape, shape->pipe - 1, shape->data - 1, cell); // the widest
    snprintf(heading, sizeof heading, "data %d", columns - 1);
    int width = (int)(strlen(cell) > strlen(heading) ? strlen(cell) : strlen(heading)) + 2;
    if (size > 0)
        text[0] = '\0';
    draw(&d, "%9s", "");
    for (int j = 0; j < columns; j++) {
        snprintf(heading, sizeof heading, "data %d", j);
        draw(&d, "%*s", width, heading);
    }
    draw(&d, "%s\n", columns < shape->data ? "  ..." : "");
    for (int i = 0; i < rows; i++) {
        draw(&d, "pipe %-4d", i);
        for (int j = 0; j < columns; j++) {
            cell_text(shape, i, j, cell);
            draw(&d, "%*s", width, cell);
        }
        draw(&d, "%s\n", columns < shape->data ? "  ..." : "");
    }
    if (rows < shape->pipe)
        draw(&d, "...\n");
    return text;
}
