#include "data/prep.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "data/prep_internal.h"

typedef enum slot_state {
    SLOT_FREE,
    SLOT_FILLED,
    SLOT_DONE,
} slot_state;

typedef struct slot {
    slot_state state;
    prep_chunk chunk;
} slot;

// One of the sets that are written.
typedef struct output {
    indexed_writer *writer;
    int64_t document_tokens; // of the document at work, which may come in parts
    prep_report *report;
} output;

// A ring of chunks: the main thread fills and writes in order, workers take what is filled. The
// numbers count chunks since the start.
typedef struct prep {
    const tokenizer *t;
    const prep_options *o;
    prep_reader reader;
    slot *slots;
    size_t slot_count;
    size_t filled;  // by the main thread
    size_t taken;   // by workers
    size_t written; // by the main thread
    bool stop;
    pthread_mutex_t lock; // guards the states, `filled`, `taken` and `stop`
    pthread_cond_t work;  // a chunk is filled, or stop
    pthread_cond_t done;  // a chunk is encoded
    pthread_t *threads;
    tokenizer_encoder **encoders;
    int thread_count;
    output outputs[PREP_KEYS_MAX];
    uint64_t bytes_total;
    struct timespec start;
    double reported; // seconds from the start to the last report of progress
} prep;

typedef struct worker {
    prep *p;
    tokenizer_encoder *encoder;
} worker;

prep_options prep_options_defaults(void)
{
    static const char *const keys[] = {"text"};
    return (prep_options){.keys = keys, .key_count = 1, .workers = 1};
}

static void *work(void *argument)
{
    worker *w = argument;
    prep *p = w->p;
    pthread_mutex_lock(&p->lock);
    for (;;) {
        while (!p->stop && p->taken == p->filled)
            pthread_cond_wait(&p->work, &p->lock);
        if (p->stop)
            break;
        slot *s = &p->slots[p->taken++ % p->slot_count];
        pthread_mutex_unlock(&p->lock);
        prep_chunk_encode(&s->chunk, w->encoder, p->o);
        pthread_mutex_lock(&p->lock);
        s->state = SLOT_DONE;
        pthread_cond_signal(&p->done);
    }
    pthread_mutex_unlock(&p->lock);
    free(w);
    return NULL;
}

static status start_worker(prep *p)
{
    worker *w = malloc(sizeof *w);
    if (!w)
        return fail(STATUS_ERR_MEMORY, "no memory for a worker");
    *w = (worker){p, p->encoders[p->thread_count]};
    if (pthread_create(&p->threads[p->thread_count], NULL, work, w)) {
        free(w);
        return fail(STATUS_ERR_MEMORY, "cannot start thread %d of %d", p->thread_count + 1,
                    p->o->workers);
    }
    p->thread_count++;
    return STATUS_OK;
}

static status end_document(prep *p, output *out)
{
    const int32_t eod = tokenizer_eod(p->t);
    if (out->document_tokens == 0) {
        out->report->skipped++;
        return STATUS_OK;
    }
    if (p->o->append_eod) {
        TRY(indexed_writer_add(out->writer, &eod, 1));
        out->report->eod++;
    }
    out->document_tokens = 0;
    return indexed_writer_end_document(out->writer);
}

static status write_ids(prep *p, output *out, const int32_t *ids, size_t count)
{
    const int32_t eod = tokenizer_eod(p->t);
    for (size_t i = 0; i < count; i++)
        out->report->eod += ids[i] == eod;
    out->document_tokens += (int64_t)count;
    return count > 0 ? indexed_writer_add(out->writer, ids, count) : STATUS_OK;
}

static status write_chunk(prep *p, const prep_chunk *c)
{
    const size_t keys = p->o->key_count;
    const int32_t *ids = c->ids.ids;
    if (c->result != STATUS_OK)
        return c->error[0] ? fail(c->result, "%s", c->error) : c->result;
    for (size_t key = 0; key < keys; key++)
        p->outputs[key].report->bytes += c->text_bytes[key];
    for (size_t i = 0; i < c->count; i++)
        for (size_t key = 0; key < (c->json ? keys : 1); key++) {
            const size_t count = c->id_counts[i * keys + key];
            TRY(write_ids(p, &p->outputs[key], ids, count));
            ids = count > 0 ? ids + count : ids;
            if (c->pieces[i].last)
                TRY(end_document(p, &p->outputs[key]));
        }
    return STATUS_OK;
}

static void report_progress(prep *p)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    const double seconds =
        (double)(now.tv_sec - p->start.tv_sec) + 1e-9 * (double)(now.tv_nsec - p->start.tv_nsec);
    if (!p->o->progress || seconds < p->reported + 1)
        return;
    p->reported = seconds;
    const prep_progress progress = {p->reader.bytes_read, p->bytes_total, seconds};
    p->o->progress(&progress, p->o->context);
}

static status fill_next(prep *p, bool *ended)
{
    slot *s = &p->slots[p->filled % p->slot_count];
    TRY(prep_reader_fill(&p->reader, &s->chunk, ended));
    if (*ended)
        return STATUS_OK;
    pthread_mutex_lock(&p->lock);
    s->state = SLOT_FILLED;
    p->filled++;
    pthread_cond_signal(&p->work);
    pthread_mutex_unlock(&p->lock);
    return STATUS_OK;
}

static status write_next(prep *p)
{
    slot *s = &p->slots[p->written % p->slot_count];
    pthread_mutex_lock(&p->lock);
    while (s->state != SLOT_DONE)
        pthread_cond_wait(&p->done, &p->lock);
    s->state = SLOT_FREE;
    pthread_mutex_unlock(&p->lock);
    p->written++;
    return write_chunk(p, &s->chunk);
}

static status pump(prep *p)
{
    bool ended = false;
    while (!ended || p->written < p->filled) {
        if (!ended && p->filled - p->written < p->slot_count)
            TRY(fill_next(p, &ended));
        else
            TRY(write_next(p));
        report_progress(p);
    }
    return STATUS_OK;
}

static status open_outputs(prep *p, prep_report *reports)
{
    const indexed_dtype dtype = indexed_dtype_for_vocab((int64_t)tokenizer_vocab_size(p->t));
    for (size_t key = 0; key < p->o->key_count; key++) {
        char *prefix = NULL;
        const bool several = p->o->key_count > 1;
        if (asprintf(&prefix, "%s%s%s", p->o->output, several ? "_" : "",
                     several ? p->o->keys[key] : "") < 0)
            return fail(STATUS_ERR_MEMORY, "no memory for the name of an output");
        reports[key] = (prep_report){.dtype = dtype};
        p->outputs[key].report = &reports[key];
        const status result = indexed_writer_create(prefix, dtype, &p->outputs[key].writer);
        free(prefix);
        TRY(result);
    }
    return STATUS_OK;
}

static status finish_outputs(prep *p)
{
    for (size_t key = 0; key < p->o->key_count; key++) {
        output *out = &p->outputs[key];
        out->report->documents = indexed_writer_documents(out->writer);
        out->report->tokens = indexed_writer_tokens(out->writer);
        TRY(indexed_writer_finish(out->writer));
    }
    return STATUS_OK;
}

static status check_options(const tokenizer *t, const prep_options *o)
{
    if (o->input_count == 0)
        return fail(STATUS_ERR_CONFIG, "no input; name one file or more");
    if (o->key_count < 1 || o->key_count > PREP_KEYS_MAX)
        return fail(STATUS_ERR_CONFIG, "%zu keys; 1 to %d would be right", o->key_count,
                    PREP_KEYS_MAX);
    for (size_t i = 0; i < o->key_count; i++)
        for (size_t j = 0; j < i; j++)
            if (!strcmp(o->keys[i], o->keys[j]))
                return fail(STATUS_ERR_CONFIG, "the key \"%s\" is given twice", o->keys[i]);
    if (o->workers < 1 || o->workers > PREP_WORKERS_MAX)
        return fail(STATUS_ERR_CONFIG, "%d workers; 1 to %d would be right", o->workers,
                    PREP_WORKERS_MAX);
    if (o->append_eod && tokenizer_eod(t) < 0)
        return fail(STATUS_ERR_CONFIG,
                    "the tokenizer has no end-of-document token <|endoftext|> to "
                    "append; one that has it, or no append-eod, would be right");
    return STATUS_OK;
}

static status create(prep *p)
{
    void *memory;
    const size_t workers = (size_t)p->o->workers;
    p->slot_count = 2 * workers + 2;
    TRY(memory_alloc(p->slot_count, sizeof *p->slots, "the chunks of text", &memory));
    p->slots = memory;
    TRY(memory_alloc(workers, sizeof *p->threads, "the workers", &memory));
    p->threads = memory;
    TRY(memory_alloc(workers, sizeof(tokenizer_encoder *), "the workers", &memory));
    p->encoders = memory;
    for (size_t i = 0; i < workers; i++)
        TRY(tokenizer_encoder_create(p->t, &p->encoders[i]));
    for (size_t i = 0; i < workers; i++)
        TRY(start_worker(p));
    return STATUS_OK;
}

static void stop_workers(prep *p)
{
    pthread_mutex_lock(&p->lock);
    p->stop = true;
    pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->lock);
    for (int i = 0; i < p->thread_count; i++)
        pthread_join(p->threads[i], NULL);
}

static void release(prep *p)
{
    stop_workers(p);
    for (int i = 0; p->encoders && i < p->o->workers; i++)
        tokenizer_encoder_destroy(p->encoders[i]);
    for (size_t i = 0; p->slots && i < p->slot_count; i++)
        prep_chunk_fini(&p->slots[i].chunk);
    for (size_t key = 0; key < PREP_KEYS_MAX; key++)
        indexed_writer_destroy(p->outputs[key].writer);
    prep_reader_fini(&p->reader);
    memory_free(p->encoders);
    memory_free(p->threads);
    memory_free(p->slots);
    pthread_cond_destroy(&p->done);
    pthread_cond_destroy(&p->work);
    pthread_mutex_destroy(&p->lock);
}

status prep_run(const tokenizer *t, const prep_options *o, prep_report *reports)
{
    prep p = {.t = t, .o = o};
    status result;
    TRY(check_options(t, o));
    TRY(prep_inputs_check(o, &p.bytes_total));
    prep_reader_init(&p.reader, o, tokenizer_can_cut(t));
    clock_gettime(CLOCK_MONOTONIC, &p.start);
    pthread_mutex_init(&p.lock, NULL);
    pthread_cond_init(&p.work, NULL);
    pthread_cond_init(&p.done, NULL);
    TRY_OUT(result, open_outputs(&p, reports));
    TRY_OUT(result, create(&p));
    TRY_OUT(result, pump(&p));
    result = finish_outputs(&p);
out:
    release(&p);
    return result;
}
