// YAML documents through libyaml, which keeps the line and column of every node.
#include "config/config_schema.h"

#include <string.h>

// Marks count from 0, people from 1.
static config_place place_of(const config_place *origin, yaml_mark_t mark)
{
    config_place place = *origin;
    place.line = mark.line + 1;
    place.column = mark.column + 1;
    return place;
}

static status parse_error(const yaml_parser_t *parser, const config_place *origin)
{
    char shown[CONFIG_PLACE_MAX];
    if (parser->error == YAML_MEMORY_ERROR)
        return fail(STATUS_ERR_MEMORY, "no memory to parse YAML");
    if (parser->error == YAML_READER_ERROR) {
        config_place_str(shown, origin);
        return fail(STATUS_ERR_CONFIG, "%s: %s at byte %zu; a YAML file is UTF-8 text", shown,
                    parser->problem, parser->problem_offset);
    }
    config_place place = place_of(origin, parser->problem_mark);
    config_place_str(shown, &place);
    const char *what = parser->problem ? parser->problem : "malformed YAML";
    const char *right = strstr(what, "cannot start any token")
                            ? "quote it, and indent with blanks only"
                            : "check brackets, commas and quotes";
    if (parser->context)
        return fail(STATUS_ERR_CONFIG, "%s: YAML: %s, %s that begins on line %zu; %s", shown, what,
                    parser->context, parser->context_mark.line + 1, right);
    return fail(STATUS_ERR_CONFIG, "%s: YAML: %s; %s", shown, what, right);
}

config_node config_node_at(config_node from, yaml_node_item_t item)
{
    config_node node = from;
    node.node = yaml_document_get_node(from.document, item);
    node.place = place_of(&from.place, node.node->start_mark);
    return node;
}

config_scalar config_node_scalar(config_node node)
{
    return (config_scalar){
        .text = (const char *)node.node->data.scalar.value,
        .length = node.node->data.scalar.length,
        .plain = node.node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE,
    };
}

// Tags would override the types that the table fixes.
static status check_tags(config_node root)
{
    char quoted[CONFIG_QUOTE_MAX], place[CONFIG_PLACE_MAX];
    yaml_node_t *end = root.document->nodes.top;
    for (yaml_node_t *node = root.document->nodes.start; node < end; node++) {
        const char *usual = node->type == YAML_SCALAR_NODE     ? YAML_DEFAULT_SCALAR_TAG
                            : node->type == YAML_SEQUENCE_NODE ? YAML_DEFAULT_SEQUENCE_TAG
                                                               : YAML_DEFAULT_MAPPING_TAG;
        const char *tag = (const char *)node->tag;
        if (!tag || !strcmp(tag, usual))
            continue;
        config_place at = place_of(&root.place, node->start_mark);
        return fail(STATUS_ERR_CONFIG, "%s: the tag %s is not read; a key's type is fixed",
                    config_place_str(place, &at), config_quote(quoted, tag, strlen(tag)));
    }
    return STATUS_OK;
}

static status read_document(yaml_document_t *document, const config_place *origin,
                            status (*read)(void *context, config_node root), void *context)
{
    yaml_node_t nothing = {.type = YAML_SCALAR_NODE};
    yaml_char_t empty[1] = "";
    nothing.data.scalar.value = empty;
    nothing.data.scalar.style = YAML_PLAIN_SCALAR_STYLE;
    config_node root = {document, yaml_document_get_root_node(document), *origin};
    if (!root.node)
        root.node = &nothing;
    root.place = place_of(origin, root.node->start_mark);
    TRY(check_tags(root));
    return read(context, root);
}

// Whether another document follows; its place, or the error before it.
static status expect_end(yaml_parser_t *parser, const config_place *origin)
{
    char shown[CONFIG_PLACE_MAX];
    yaml_document_t document;
    if (!yaml_parser_load(parser, &document))
        return parse_error(parser, origin);
    bool more = yaml_document_get_root_node(&document) != NULL;
    config_place place = place_of(origin, document.start_mark);
    yaml_document_delete(&document);
    if (!more)
        return STATUS_OK;
    return fail(STATUS_ERR_CONFIG, "%s: a second document begins; one a file is read",
                config_place_str(shown, &place));
}

status config_yaml_parse(const char *text, size_t bytes, const config_place *origin,
                         status (*read)(void *context, config_node root), void *context)
{
    yaml_parser_t parser;
    yaml_document_t document;
    status result = STATUS_OK;
    if (!yaml_parser_initialize(&parser))
        return fail(STATUS_ERR_MEMORY, "no memory to parse YAML");
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, bytes);
    if (!yaml_parser_load(&parser, &document)) {
        result = parse_error(&parser, origin);
        goto out;
    }
    if (yaml_document_get_root_node(&document))
        result = expect_end(&parser, origin);
    if (result == STATUS_OK)
        result = read_document(&document, origin, read, context);
    yaml_document_delete(&document);
out:
    yaml_parser_delete(&parser);
    return result;
}
