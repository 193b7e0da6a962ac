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
