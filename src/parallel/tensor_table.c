#include "parallel/tensor_table.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/sizes.h"

void tensor_table_init(tensor_table *table)
{
    *table = (tensor_table){0};
}

void tensor_table_fini(tensor_table *table)
{
    free(table->tensors);
    *table = (tensor_table){0};
}

static status grow(tensor_table *table)
{
    if (table->count < table->capacity)
        return STATUS_OK;
    size_t capacity = size_max(64, 2 * table->capacity);
    tensor_info *tensors = realloc(table->tensors, capacity * sizeof *tensors);
    if (!tensors)
        return fail(STATUS_ERR_MEMORY, "tensor table: cannot allocate %zu entries", capacity);
    table->tensors = tensors;
    table->capacity = capacity;
    return STATUS_OK;
}

status tensor_table_add(tensor_table *table, const tensor_info *info, size_t *index)
{
    size_t elements, end;
    if (!size_mul(info->rows, info->cols, &elements) ||
        !size_add(table->elements, elements, &end) || end > SIZE_MAX / 8 - TENSOR_ALIGN)
        return fail(STATUS_ERR_CONFIG, "tensor %s of %zu x %zu values does not fit into memory",
                    info->name, info->rows, info->cols);
    TRY(grow(table));
    tensor_info *slot = &table->tensors[table->count];
    *slot = *info;
    slot->offset = table->elements;
    if (slot->whole_rows == 0) {
        slot->whole_rows = slot->rows;
        slot->whole_cols = slot->cols;
    }
    table->elements = size_round_up(end, TENSOR_ALIGN);
    if (index)
        *index = table->count;
    table->count++;
    return STATUS_OK;
}

size_t tensor_table_find(const tensor_table *table, const char *name)
{
    for (size_t i = 0; i < table->count; i++)
        if (!strcmp(table->tensors[i].name, name))
            return i;
    return SIZE_MAX;
}

size_t tensor_table_parameters(const tensor_table *table)
{
    size_t sum = 0;
    for (size_t i = 0; i < table->count; i++)
        sum += tensor_elements(&table->tensors[i]);
    return sum;
}

void tensor_table_places(const tensor_table *table, void *flat, size_t size, void **places)
{
    for (size_t i = 0; i < table->count; i++)
        places[i] = (unsigned char *)flat + table->tensors[i].offset * size;
}

// The element of the whole tensor at which row `row` of the part begins.
static size_t place_of_row(const tensor_info *info, size_t row)
{
    return (info->first_row + row) * info->whole_cols + info->first_col;
}

void tensor_part_take(const tensor_info *info, float *part, const float *whole)
{
    for (size_t r = 0; r < info->rows; r++)
        memcpy(part + r * info->cols, whole + place_of_row(info, r), info->cols * sizeof(float));
}

void tensor_part_place(const tensor_info *info, float *whole, const float *part)
{
    for (size_t r = 0; r < info->rows; r++)
        memcpy(whole + place_of_row(info, r), part + r * info->cols, info->cols * sizeof(float));
}
