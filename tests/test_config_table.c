// The table of settings itself, and the texts made from it.
#include "config_fixture.h"

#include <stdlib.h>

#include "config/config_schema.h"

static void names_are_unique_and_lie_in_maps(void **state)
{
    (void)state;
    for (size_t i = 0; i < config_setting_count; i++) {
        const setting *s = &config_settings[i];
        char parent[CONFIG_PATH_MAX];
        if (s->kind == SETTING_SECTION)
            continue;
        assert_ptr_equal(config_setting_find(s->name), s);
        snprintf(parent, sizeof parent, "%s", s->name);
        char *dot = strrchr(parent, '.');
        if (!dot)
            continue;
        *dot = '\0';
        const setting *map = config_setting_find(parent);
        if (!map || map->kind != SETTING_MAP || map > s)
            fail_msg("%s does not follow its map", s->name);
    }
}

static void used_settings_have_fields_of_their_own(void **state)
{
    (void)state;
    static const setting *owner[sizeof(config)];
    memset(owner, 0, sizeof owner);
    for (size_t i = 0; i < config_setting_count; i++) {
        const setting *s = &config_settings[i];
        if (s->stance != STANCE_USED || s->kind == SETTING_SECTION || s->kind == SETTING_MAP)
            continue;
        if (s->offset == 0 || s->offset >= sizeof(config) || owner[s->offset])
            fail_msg("%s has the offset %zu", s->name, s->offset);
        owner[s->offset] = s;
        assert_non_null(s->help);
        assert_int_equal(s->choices != NULL, s->kind == SETTING_CHOICE);
        bool number = s->kind == SETTING_INT || s->kind == SETTING_FLOAT ||
                      s->kind == SETTING_INTS || s->kind == SETTING_FLOATS;
        assert_int_equal(s->range != NULL, number);
    }
}

static char *printed(void (*print)(FILE *out))
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    print(out);
    assert_int_equal(fclose(out), 0);
    return text;
}

static void help_and_page_tell_every_setting(void **state)
{
    (void)state;
    char *help = printed(config_print_help), *page = printed(config_print_markdown);
    for (size_t i = 0; i < config_setting_count; i++) {
        const setting *s = &config_settings[i];
        char row[CONFIG_PATH_MAX + 8];
        if (s->kind == SETTING_SECTION || s->folded || s->stance == STANCE_UNKNOWN)
            continue;
        snprintf(row, sizeof row, "| `%s` |", s->name);
        if (!strstr(help, s->name) || !strstr(page, row))
            fail_msg("%s is not told", s->name);
    }
    assert_non_null(strstr(help, "  optimizer.params.lr: float, default 0.001, at least 0\n"));
    free(page);
    free(help);
}

static void wrong_names_find_the_right_ones(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {
        {"hiddensize", "hidden_size"},
        {"num_layer", "num_layers"},
        {"train_iter", "train_iters"},
        {"sed", "seed"},
        {"optimizer.parms", "optimizer.params"},
        {"optimizer.params.esp", "optimizer.params.eps"},
        {"stage", "zero_optimization.stage"},
        {"fp16.precision", "precision"},
        {"comm_compression.pipe.activation", "comm_compression.pipe.activations"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        const char *found = config_setting_nearest(pairs[i][0]);
        if (!found || strcmp(found, pairs[i][1]) != 0)
            fail_msg("%s finds %s", pairs[i][0], found ? found : "nothing");
    }
    assert_null(config_setting_nearest("x"));
    assert_null(config_setting_nearest("zero_optimization.enabled"));
}

static void long_and_odd_texts_are_quoted_on_one_line(void **state)
{
    (void)state;
    char quoted[CONFIG_QUOTE_MAX], place[CONFIG_PLACE_MAX], path[1000];
    assert_string_equal(config_quote(quoted, "a\nb\0c", 5), "\"a?b?c\"");
    memset(path, 'x', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    config_quote(quoted, path, sizeof path - 1);
    assert_int_equal(strlen(quoted), CONFIG_QUOTE_MAX - 1);
    assert_string_equal(quoted + CONFIG_QUOTE_MAX - 6, "x...\"");
    // Cut between characters, never inside one.
    char wide[201];
    for (size_t shift = 0; shift < 3; shift++) {
        memset(wide, 'x', shift);
        for (size_t i = shift; i + 3 < sizeof wide; i += 3)
            memcpy(wide + i, "\xe2\x82\xac", 3);
        config_quote(quoted, wide, 150);
        const char *dots = strstr(quoted, "...");
        assert_non_null(dots);
        assert_int_equal((dots - quoted - 1 - (ptrdiff_t)shift) % 3, 0);
    }
    config_place_str(place, &(config_place){.source = path, .line = 12, .column = 7});
    assert_string_equal(place + strlen(place) - 6, "x:12:7");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_unique_and_lie_in_maps),
        cmocka_unit_test(used_settings_have_fields_of_their_own),
        cmocka_unit_test(help_and_page_tell_every_setting),
        cmocka_unit_test(wrong_names_find_the_right_ones),
        cmocka_unit_test(long_and_odd_texts_are_quoted_on_one_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
