// Stands in for libFuzzer where the compiler has none: runs a fuzzer over the files, and the files
// of the folders, that it is given.
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "fuzz.h"

enum { INPUT_MAX = 16 << 20 };

static int replay_file(const char *path)
{
    uint8_t *data = malloc(INPUT_MAX);
    FILE *file = fopen(path, "rb");
    if (!data || !file) {
        fprintf(stderr, "cannot read %s\n", path);
        free(data);
        return 1;
    }
    size_t size = fread(data, 1, INPUT_MAX, file);
    fclose(file);
    // Of its exact size, so that a sanitizer sees a read past the end.
    uint8_t *exact = realloc(data, size ? size : 1);
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
    return 0;
}

static int replay_folder(const char *path, DIR *folder)
{
    int failures = 0, inputs = 0;
    struct dirent *entry;
    while ((entry = readdir(folder))) {
        char name[4096];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
        failures += replay_file(name);
        inputs++;
    }
    printf("%s: %d inputs\n", path, inputs);
    // An empty folder would test nothing.
    return inputs == 0 ? 1 : failures;
}

int main(int argc, char **argv)
{
    int failures = argc < 2;
    for (int i = 1; i < argc; i++) {
        DIR *folder = opendir(argv[i]);
        if (folder) {
            failures += replay_folder(argv[i], folder);
            closedir(folder);
        } else {
            failures += replay_file(argv[i]);
        }
    }
    return failures != 0;
}
