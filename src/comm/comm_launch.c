#include "comm/comm_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

status comm_mpi_fail(int code, const char *what)
{
    char text[MPI_MAX_ERROR_STRING] = "unknown error";
    int length;
    MPI_Error_string(code, text, &length);
    return fail(STATUS_ERR_COMM, "%s: %s", what, text);
}

// A positive number, or 0.
static long environment_number(const char *name)
{
    const char *text = getenv(name);
    char *end;
    if (!text)
        return 0;
    errno = 0;
    long value = strtol(text, &end, 10);
    return errno == 0 && end != text && *end == '\0' && value > 0 ? value : 0;
}

// The number of ranks that the nearest launcher tells, with the variable that tells it, or 0.
static long promised_ranks(const char **variable)
{
    // `step` must be there too: a batch script's own SLURM variables say nothing about this
    // process, those of an srun step do. The first variable found is the nearest launcher's.
    static const struct {
        const char *size;
        const char *step;
    } launchers[] = {
        {"OMPI_COMM_WORLD_SIZE", NULL}, // Open MPI
        {"PMI_SIZE", NULL},             // MPICH, Intel MPI
        {"MV2_COMM_WORLD_SIZE", NULL},  // MVAPICH
        {"MPI_LOCALNRANKS", NULL},      // MPICH's hydra, ranks of a host
        {"PALS_NRANKS", NULL},          // Cray
        {"SLURM_STEP_NUM_TASKS", "SLURM_STEP_ID"},
    };
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
        long promised = environment_number(launchers[i].size);
        if (promised == 0 || (launchers[i].step && !getenv(launchers[i].step)))
            continue;
        *variable = launchers[i].size;
        return promised;
    }
    return 0;
}

bool comm_launched(void)
{
    const char *variable;
    return promised_ranks(&variable) > 1;
}

// A launcher tells its processes how many they are. A process that sees one rank all the same was
// started by the launcher of another MPI, and N copies would each train alone.
status comm_launcher_check(int mpi_size)
{
    const char *variable;
    const long promised = mpi_size == 1 ? promised_ranks(&variable) : 0;
    if (promised <= 1)
        return STATUS_OK;
    return fail(STATUS_ERR_CONFIG,
                "launcher and libmpi differ: %s is %ld but MPI sees 1 rank; start with the mpirun "
                "of the MPI that this program is linked with (mpirun and libmpi differ)",
                variable, promised);
}

static status local_ranks(comm *c)
{
    MPI_Comm host;
    TRY_MPI(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, c->world_rank, MPI_INFO_NULL,
                                &host),
            "ranks of this host");
    TRY_MPI(MPI_Comm_rank(host, &c->local_rank), "ranks of this host");
    TRY_MPI(MPI_Comm_size(host, &c->local_size), "ranks of this host");
    TRY_MPI(MPI_Comm_free(&host), "ranks of this host");
    return STATUS_OK;
}

// Chunks are cut alike on all ranks only if they were asked for alike.
static status compare_options(const comm *c)
{
    uint64_t mine[2] = {c->options.chunk_bytes, UINT64_MAX - c->options.chunk_bytes};
    uint64_t least[2];
    TRY_MPI(MPI_Allreduce(mine, least, 2, MPI_UINT64_T, MPI_MIN, MPI_COMM_WORLD), "options");
    uint64_t most = UINT64_MAX - least[1];
    if (least[0] == most)
        return STATUS_OK;
    return fail(STATUS_ERR_CONFIG, "chunk_bytes is %llu to %llu; it must be the same on all ranks",
                (unsigned long long)least[0], (unsigned long long)most);
}

static status look_around(comm *c)
{
    TRY_MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI start");
    TRY_MPI(MPI_Comm_rank(MPI_COMM_WORLD, &c->world_rank), "MPI start");
    TRY_MPI(MPI_Comm_size(MPI_COMM_WORLD, &c->world_size), "MPI start");
    TRY(comm_launcher_check(c->world_size));
    TRY(local_ranks(c));
    return compare_options(c);
}

// Without mpirun Open MPI starts a helper process unless told that no ranks will be added; and its
// folder under /tmp, which all jobs of a user share, may be removed by one that ends just while
// another starts. A process of its own gets a folder of its own.
static char own_folder[64];

static void prepare_single(void)
{
    setenv("OMPI_MCA_ess_singleton_isolated", "1", 0);
    if (getenv("OMPI_COMM_WORLD_SIZE") || getenv("OMPI_MCA_orte_tmpdir_base"))
        return;
    snprintf(own_folder, sizeof own_folder, "/tmp/trifold-mpi-XXXXXX");
    if (mkdtemp(own_folder))
        setenv("OMPI_MCA_orte_tmpdir_base", own_folder, 1);
    else
        own_folder[0] = '\0';
}

status comm_mpi_start(comm *c)
{
    prepare_single();
    int provided;
    TRY_MPI(MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided), "MPI start");
    status result = look_around(c);
    if (result == STATUS_OK && provided < MPI_THREAD_FUNNELED)
        result = fail(STATUS_ERR_COMM, "MPI does not allow threads beside the one that calls it; a "
                                       "build with thread support is needed");
    if (result != STATUS_OK)
        comm_mpi_stop();
    return result;
}

void comm_mpi_stop(void)
{
    MPI_Finalize();
    if (own_folder[0])
        rmdir(own_folder); // Open MPI has emptied it
}

// Open MPI's mpirun ends a job of which a process exits with an error. That is surer than its
// MPI_Abort, whose message to mpirun may crash mpirun itself (4.1 with an external PMIx).
void comm_mpi_abort(const comm *c, int exit_code)
{
    fflush(NULL);
    if (c->world_size > 1 && !getenv("OMPI_COMM_WORLD_SIZE"))
        MPI_Abort(MPI_COMM_WORLD, exit_code);
    _exit(exit_code);
}
